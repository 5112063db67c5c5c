"""Writes what a run prints as whole lines, redacted, with a time each. Python 3.8."""

from __future__ import annotations

import time

from tpuctl.agent.job.logs.log_files import LogFiles
from tpuctl.agent.job.logs.redaction import Redaction

LINE_BYTES = 64 * 1024
"""A longer line is cut."""
TAIL_BYTES = 64 * 1024
"""Kept in memory, for what is said of a run that ended."""
MAX_HEARD_BYTES = 1024 * 1024


class JobLog:
    """The log of one run."""

    def __init__(self, files: LogFiles, redaction: Redaction) -> None:
        self.files = files
        self.redaction = redaction
        self.rest = b""
        self.tail = b""
        self.active_s: float | None = None
        """When the last line came, in seconds of the epoch."""
        self.complaint = b""
        """Line that says why lines before it are missing; empty when none are."""
        self.heard: list[bytes] | None = None
        """Collects lines while it is not None, up to MAX_HEARD_BYTES."""

    def feed(self, block: bytes) -> bytes:
        """Write the lines that a block completes; return them, redacted."""
        text = self.rest + block
        cut = text.rfind(b"\n") + 1
        if cut:
            whole, self.rest = text[:cut], text[cut:]
            return self.append(self.redaction.redact(whole))
        self.rest = text
        if len(text) < LINE_BYTES + self.redaction.longest_bytes:
            return b""
        # A secret may have begun at the end of what is there: so much of it waits for the rest.
        text = self.redaction.redact(text)
        cut = len(text) - self.redaction.longest_bytes
        self.rest = text[cut:]
        return self.append(text[:cut] + b"\n")

    def end_line(self) -> bytes:
        """Write what came last without a line end; return it, redacted."""
        rest, self.rest = self.redaction.redact(self.rest), b""
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
