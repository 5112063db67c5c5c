"""The expression of `job logs --grep`, which is given up when a line takes it too long."""

import re

from tpuctl.bounded_search import BoundedSearch, SearchLimitError
from tpuctl.errors import UsageError

LIMIT_S = 2.0
"""Processor time for one line; what backtracks without end takes years."""


class BoundedPattern:
    """A regular expression for lines; its searches belong to the main thread."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._bounded = BoundedSearch(pattern, LIMIT_S)
        self.many = self._bounded
        """The context of many searches, which share a timer."""

    def search(self, text: str) -> re.Match[str] | None:
        """Where the expression is found in a line; raises UsageError when that takes too long."""
        try:
            return self._bounded.search(text)
        except SearchLimitError:
            bounded = self._bounded
            raise UsageError(
                f"{bounded.pattern.pattern!r} takes more than {bounded.limit_s:g} s for one line",
                hint="put no repeat within a repeat: a+ in place of (a+)+",
            ) from None


def compile_pattern(text: str) -> BoundedPattern:
    """The expression that a text is; raises UsageError."""
    try:
        return BoundedPattern(re.compile(text))
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{text!r} is no regular expression: {error}") from error
