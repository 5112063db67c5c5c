"""How long a program waited for its checkpoints, as it says in a file. Python 3.8."""

from __future__ import annotations

import os
import re
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SAVING_FILE = "saving"
READ_BYTES = 64 * 1024
MOST_ROWS = 32
SECONDS = re.compile(rb"[0-9]{1,6}(\.[0-9]{1,9})?")


class SaveWaits:
    """The waits of a program: each appends its seconds to a file, as a line.

    Of many waits every n-th has a row, as many as fit, and the last one.
    """

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, SAVING_FILE)
        self.read_bytes = 0
        self.rest = b""
        self.waited_s = 0.0
        self.waits = 0
        self.every = 1
        self.rows: list[tuple[float, float]] = []
        self.last: tuple[float, float] | None = None

    def read_new(self, began: float) -> bool:
        """Take the waits that are new; `began` is the start of the program by time.monotonic."""
        try:
            found = os.stat(self.path)
            if found.st_size <= self.read_bytes or not stat.S_ISREG(found.st_mode):
                return False  # a pipe would be waited for
            with open(self.path, "rb") as file:
                file.seek(self.read_bytes)
                block = file.read(READ_BYTES)
        except OSError:
            return False
        self.read_bytes += len(block)
        *lines, rest = (self.rest + block).split(b"\n")
        self.rest = rest[-READ_BYTES:]
        ended = time.monotonic() - max(0.0, time.time() - found.st_mtime)
        for line in lines:
            if SECONDS.fullmatch(line.strip()):
                self.note(float(line), max(0.0, ended - began))
        return True

    def note(self, waited_s: float, after_s: float) -> None:
        """Add a wait that ended so many seconds after the start of the program."""
        self.waited_s += waited_s
        self.waits += 1
        self.last = round(after_s, 3), round(self.waited_s, 3)
        if self.waits % self.every == 0:
            self.rows.append(self.last)
        if len(self.rows) >= MOST_ROWS:
            del self.rows[::2]
            self.every *= 2

    def table(self) -> list[dict[str, Any]]:
        """Return when waits ended, and how long the program had waited until then altogether."""
        rows = list(self.rows)
        if self.last is not None and self.last not in rows:
            rows.append(self.last)
        return [{"after_s": after_s, "waited_s": waited_s} for after_s, waited_s in rows]
