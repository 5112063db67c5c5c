"""Which lines of a job's logs are wanted."""

import re
from dataclasses import dataclass

from tpuctl.models.job import LogLine


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
