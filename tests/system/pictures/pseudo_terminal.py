"""A command on a pseudo-terminal of a certain width, and what its screen shows at every moment."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

ROWS = 60
UNFINISHED = re.compile(r"(?:\x1b(?:\[[\d?;]*)?|\r)\Z")
"""The beginning of a control sequence, whose rest has not been read yet."""
PARTS = re.compile(r"(\r\n|\n|\r|\x1b\[\d*[A-Z]|\x1b\[\?25[lh])")


class TerminalScreen:
    """The lines of a screen, with their colours; rich erases a line before it writes it again."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = 0
        self._rest = ""
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        """Take what a program writes."""
        text = self._rest + self._decoder.decode(data)
        whole = text[: found.start()] if (found := UNFINISHED.search(text)) else text
        self._rest = text[len(whole) :]
        for part in PARTS.split(whole):
            if part in ("\n", "\r\n"):
                self._row += 1
                if self._row == len(self.lines):
                    self.lines.append("")
            elif part.endswith("A") and part.startswith("\x1b["):
                self._row = max(0, self._row - int(part[2:-1] or 1))
            elif part.endswith("K") and part.startswith("\x1b["):
                self.lines[self._row] = ""
            elif part != "\r" and not part.startswith("\x1b[?"):
                self.lines[self._row] += part


def frames(argv: Sequence[str], columns: int, environ: Mapping[str, str]) -> Iterator[list[str]]:
    """Run tpuctl on a pseudo-terminal; yields the lines of its screen whenever they change.

    Raises CalledProcessError when it fails.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    command = [sys.executable, "-P", "-m", "tpuctl", *argv]
    screen = TerminalScreen()
    with subprocess.Popen(
        command,
        env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "", **environ},
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        with os.fdopen(ours, "rb", buffering=0) as reader, suppress(OSError):  # EIO: it has ended
            while data := reader.read(65536):
                screen.write(data)
                yield list(screen.lines)
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, command, screen.lines)
