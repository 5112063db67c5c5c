"""Lines out of the pieces in which one worker's log comes, and which of them are wanted."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tpuctl.models.job import LogLine

STAMP = re.compile(r"\d{1,11}(\.\d{1,9})?", re.ASCII)
"""Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which workers' lines, of which attempts, since when, and with what in them; None: all."""

    workers: frozenset[int] | None = None
    attempts: frozenset[int] | None = None
    since_s: float = 0.0
    grep: re.Pattern[str] | None = None

    def has(self, source: tuple[int, int]) -> bool:
        """Lines of that attempt and worker are wanted."""
        attempt, worker_id = source
        return (self.attempts is None or attempt in self.attempts) and (
            self.workers is None or worker_id in self.workers
        )

    def matches_line(self, line: LogLine) -> bool:
        """That line is wanted; that something is missing always is."""
        return line.time_s >= self.since_s and (
            self.grep is None or line.missing_bytes > 0 or bool(self.grep.search(line.text))
        )


ALL_LINES = LogFilter()


@dataclass(slots=True)
class LineAssembler:
    """One worker's log as far as it came: its pieces may overlap, and some may be missing."""

    attempt: int
    worker_id: int
    end: int = 0
    """The offset after the last byte that was taken."""
    rest: bytes = b""
    """The beginning of a line whose end has not come yet."""
    time_s: float = 0.0
    """Of the last line."""

    def take(self, offset: int, data: bytes) -> Iterator[LogLine]:
        """The lines that are whole now; before them, a line that tells of missing bytes."""
        if offset + len(data) <= self.end:
            return
        if offset > self.end:
            missing = offset - self.end + len(self.rest)
            self.rest = b""
            yield self._hole(missing)
        text = self.rest + data[max(0, self.end - offset) :]
        self.end = offset + len(data)
        whole, newline, self.rest = text.rpartition(b"\n")
        if newline:
            yield from self._parsed(whole)

    def skip(self, offset: int) -> None:
        """Go on from an offset, where a line begins."""
        self.end, self.rest = offset, b""

    def _parsed(self, whole: bytes) -> Iterator[LogLine]:
        """Log lines of `<epoch seconds> <text>`."""
        for stamped in whole.decode("utf-8", "replace").split("\n"):
            stamp, _, text = stamped.partition(" ")
            if not STAMP.fullmatch(stamp):
                continue  # the first line after a hole may be cut
            self.time_s = float(stamp)
            yield LogLine(self.attempt, self.worker_id, self.time_s, text)

    def _hole(self, missing: int) -> LogLine:
        text = f"... {missing} bytes of the log are missing here ..."
        return LogLine(self.attempt, self.worker_id, self.time_s, text, missing_bytes=missing)
