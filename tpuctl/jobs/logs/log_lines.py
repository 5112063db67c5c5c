"""Lines out of the pieces in which one worker's log comes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tpuctl.models.job_log import LogLine

STAMP = re.compile(r"\d{1,11}(\.\d{1,9})?", re.ASCII)
"""Seconds since 1970."""


@dataclass(slots=True)
class LineAssembler:
    """Makes lines of one worker's log from pieces that may overlap or be missing."""

    attempt: int
    worker_id: int
    end: int = 0
    """The offset after the last byte that was taken."""
    rest: bytes = b""
    """The beginning of a line whose end has not come yet."""
    time_s: float = 0.0
    """The time of the last line."""

    def take(self, offset: int, data: bytes) -> Iterator[LogLine]:
        """Add a piece; returns the lines that are whole now, after a line for any missing bytes."""
        if offset + len(data) <= self.end:
            return
        if offset > self.end:
            missing = offset - self.end + len(self.rest)
            self.rest = b""
            hole = f"... {missing} bytes of the log are missing here ..."
            yield LogLine(self.attempt, self.worker_id, self.time_s, hole, missing_bytes=missing)
        text = self.rest + data[max(0, self.end - offset) :]
        self.end = offset + len(data)
        whole, newline, self.rest = text.rpartition(b"\n")
        if newline:
            yield from self._parsed(whole)

    def skip(self, offset: int) -> None:
        """Continue at an offset where a line begins."""
        self.end, self.rest = offset, b""

    def _parsed(self, whole: bytes) -> Iterator[LogLine]:
        """Log lines of `<epoch seconds> <text>`."""
        for stamped in whole.decode("utf-8", "replace").split("\n"):
            stamp, _, text = stamped.partition(" ")
            if not STAMP.fullmatch(stamp):
                continue  # the first line after a hole may be cut
            self.time_s = float(stamp)
            yield LogLine(self.attempt, self.worker_id, self.time_s, text)
