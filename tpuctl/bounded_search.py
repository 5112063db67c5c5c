"""Searches lines by a regular expression, and ends a search that backtracks without end.

Agents on workers have it too: Python 3.8 and the standard library.
"""

from __future__ import annotations

import re
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SearchLimitError(Exception):
    """One line has taken too much processor time."""


class BoundedSearch:
    """A regular expression, for the main thread.

    Python's `re` looks for signals while it searches (Modules/_sre). One comes after every
    `limit_s` of processor time; a search during which two have come is ended. As a context manager
    it sets one timer for all searches within, which for short lines is most of the time.
    """

    def __init__(self, pattern: re.Pattern[str], limit_s: float) -> None:
        self.pattern = pattern
        self.limit_s = limit_s
        self.before: Any = None
        """What SIGVTALRM did before the timer was set; None without one."""
        self.ticks: int | None = None
        """How many signals came during the search; None outside of one."""

    def __enter__(self) -> BoundedSearch:
        """Set the timer."""
        self.before = signal.signal(signal.SIGVTALRM, self.tick)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.limit_s, self.limit_s)
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the timer."""
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self.before)
        self.before = None

    def search(self, text: str) -> re.Match[str] | None:
        """Return where the expression is found in a line; raises SearchLimitError."""
        if self.before is None:
            with self:
                return self.search(text)
        self.ticks = 0
        try:
            return self.pattern.search(text)
        finally:
            self.ticks = None

    def tick(self, *_: Any) -> None:
        """Take note of a signal; raise SearchLimitError at the second one of a search."""
        if self.ticks is not None:
            self.ticks += 1
            if self.ticks > 1:
                raise SearchLimitError
