"""The lines of a job's log, and which of them are wanted."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a job's program printed."""

    attempt: int
    worker_id: int
    time_s: float
    text: str
    missing_bytes: int = 0
    """How many bytes are missing here, when the log does not have the line."""


class LinePattern(Protocol):
    """What is looked for in lines, such as a regular expression."""

    def search(self, text: str, /) -> object | None:
        """What was found in a line; None: nothing."""


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which workers' lines, of which attempts, since when, and with what in them; None: all."""

    workers: frozenset[int] | None = None
    attempts: frozenset[int] | None = None
    since_s: float = 0.0
    grep: LinePattern | None = None

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
