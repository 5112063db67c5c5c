"""Writes what a run prints as whole lines, redacted, with a time each. Python 3.8."""

from __future__ import annotations

import re
import time

from tpuctl.agent.job.logs.log_files import LogFiles
from tpuctl.agent.job.logs.redaction import Redaction

LINE_BYTES = 64 * 1024
"""A longer line is cut."""
TAIL_BYTES = 64 * 1024
"""Kept in memory, for what is said of a run that ended."""
MAX_HEARD_BYTES = 1024 * 1024
CURSOR = re.compile(rb"\x1b\[[0-9;]*[A-HJK]")
"""Control sequences by which bars leave their line: ECMA-48, 8.3, CUU to CUP, ED and EL."""
BAR_EVERY_S = 10.0
"""How often a progress bar that is drawn again and again gets a line of its own."""


def last_drawn(line: bytes) -> bytes:
    """Return what a line shows that carriage returns began again; a cleared one its last text."""
    if b"\r" not in line:
        return line
    drawn = [text for text in map(without_cursor, line.split(b"\r")) if text]
    return drawn[-1] if drawn else b""


def without_cursor(text: bytes) -> bytes:
    """Return a text without what moves the cursor, and the blanks at its end that clear a line."""
    return CURSOR.sub(b"", text).rstrip(b" \t\b")


class JobLog:
    """The log of one run."""

    def __init__(self, files: LogFiles, redaction: Redaction) -> None:
        self.files = files
        self.redaction = redaction
        self.rest = b""
        self.drawn = b""
        """What a progress bar shows, and a carriage return; empty without one."""
        self.bar_s = 0.0
        self.tail = b""
        self.active_s: float | None = None
        """When the last line came, in seconds of the epoch."""
        self.complaint = b""
        """Line that says why lines before it are missing; empty when none are."""
        self.heard: list[bytes] | None = None
        """Collects lines while it is not None, up to MAX_HEARD_BYTES."""

    def feed(self, block: bytes) -> bytes:
        """Write the lines that a block completes; return them, redacted.

        What a carriage return draws again is returned as a line too, and is not written.
        """
        text = self.rest + block
        cut = max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) + 1  # the last may be of a CR LF
        if cut:
            whole, self.rest = self.redaction.redact(text[:cut]), text[cut:]
            if b"\r" not in whole and not self.drawn:
                return self.append(whole)
            self.append_drawn(whole)
            return re.sub(rb"[\r\n]+", b"\n", whole)
        self.rest = text
        if len(text) < LINE_BYTES + self.redaction.longest_bytes:
            return b""
        # A secret may have begun at the end of what is there: so much of it waits for the rest.
        text = self.redaction.redact(text)
        cut = len(text) - self.redaction.longest_bytes
        self.rest = text[cut:]
        return self.append(text[:cut] + b"\n")

    def append_drawn(self, text: bytes) -> None:
        """Write lines as they look in the end, and now and then what the unfinished one shows."""
        whole, newline, unfinished = text.rpartition(b"\n")
        if newline:
            shown = [last_drawn(line) for line in (self.drawn + whole).split(b"\n")]
            self.append(b"\n".join(shown) + b"\n")
            self.drawn = b""
        drawn = last_drawn(self.drawn + unfinished)
        self.drawn = drawn + b"\r" if drawn else b""
        self.active_s = time.time()
        if self.drawn and self.active_s >= self.bar_s + BAR_EVERY_S:
            self.bar_s = self.active_s
            self.append(self.drawn[:-1] + b"\n")

    def end_line(self) -> bytes:
        """Write what came last without a line end; return it, redacted."""
        rest, self.rest = last_drawn(self.drawn + self.redaction.redact(self.rest)), b""
        self.drawn = b""
        return self.append(rest + b"\n") if rest else b""

    def say(self, text: str) -> None:
        """Write a line of the agent's own, `tpuctl: TEXT`."""
        line = f"tpuctl: {text}\n".encode("utf-8", "replace")
        self.write(self.redaction.redact(line), time.time())

    def append(self, lines: bytes) -> bytes:
        """Write whole, redacted lines of the program; return them."""
        self.active_s = time.time()
        return self.write(lines, self.active_s)

    def write(self, lines: bytes, now_s: float) -> bytes:
        """Write lines with a time, in seconds of the epoch, before each; return them.

        Lines that the disk does not take are dropped; the next ones begin with the reason.
        """
        self.keep(lines)
        stamp = f"{now_s:.3f} ".encode()
        try:
            if self.complaint:
                self.files.append(stamp + self.complaint)
                self.complaint = b""
            self.files.append(stamp + lines[:-1].replace(b"\n", b"\n" + stamp) + b"\n")
        except OSError as error:
            self.complaint = f"tpuctl: cannot write the log: {error.strerror}\n".encode()
        return lines

    def keep(self, lines: bytes) -> None:
        """Keep the end in memory."""
        self.tail = (self.tail + lines[-TAIL_BYTES:])[-TAIL_BYTES:]
        if self.heard is not None and sum(map(len, self.heard)) < MAX_HEARD_BYTES:
            self.heard.append(lines)
