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
    """A regular expression, for the main thread of a process that has no other timer of its kind.

    Python's `re` looks for signals while it searches (Modules/_sre). One comes after every
    `limit_s` of processor time; a search during which two have come is ended. To set a timer for
    each line would take ten times as long as most searches.
    """

    def __init__(self, pattern: re.Pattern[str], limit_s: float) -> None:
        self.pattern = pattern
        self.limit_s = limit_s
        self.is_ticking = False
        self.ticks: int | None = None
        """How many signals came during the search; None outside of one."""

    def search(self, text: str) -> re.Match[str] | None:
        """Return where the expression is found in a line; raises SearchLimitError."""
        if not self.is_ticking:
            self.is_ticking = True
            signal.signal(signal.SIGVTALRM, self.tick)
            signal.setitimer(signal.ITIMER_VIRTUAL, self.limit_s, self.limit_s)
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
