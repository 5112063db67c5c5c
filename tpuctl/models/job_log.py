"""The lines of a job's log, and which of them are wanted."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a job's program printed."""

    attempt: int
    worker_id: int
    time_s: float
    text: str
    missing_bytes: int = 0
    """Of a line that the log does not have: how much is missing here."""


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which workers' lines, of which attempts, since when, and with what in them; None: all."""

    workers: frozenset[int] | None = None
    attempts: frozenset[int] | None = None
    since_s: float = 0.0
    grep: re.Pattern[str] | None = None

    def has(self, source: tuple[int, int]) -> bool:
        """Whether lines of an (attempt, worker) are wanted."""
        attempt, worker_id = source
        return (self.attempts is None or attempt in self.attempts) and (
            self.workers is None or worker_id in self.workers
        )

    def matches_line(self, line: LogLine) -> bool:
        """Whether a line is wanted; one that says that something is missing always is."""
        return line.time_s >= self.since_s and (
            self.grep is None or line.missing_bytes > 0 or bool(self.grep.search(line.text))
        )


ALL_LINES = LogFilter()
