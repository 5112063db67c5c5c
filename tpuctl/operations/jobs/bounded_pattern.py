"""The expression of `job logs --grep`, which is given up when a line takes it too long."""

import re

from tpuctl.bounded_search import BoundedSearch, SearchLimitError
from tpuctl.errors import UsageError

LIMIT_S = 2.0
"""Processor time for one line; what backtracks without end takes years."""


class BoundedPattern(BoundedSearch):
    """A regular expression for lines; its searches belong to the main thread."""

    def search(self, text: str) -> re.Match[str] | None:
        """Where the expression is found in a line; raises UsageError when that takes too long."""
        try:
            return super().search(text)
        except SearchLimitError:
            raise UsageError(
                f"{self.pattern.pattern!r} takes more than {self.limit_s:g} s for one line",
                hint="put no repeat within a repeat: a+ in place of (a+)+",
            ) from None


def compile_pattern(text: str) -> BoundedPattern:
    """The expression that a text is; raises UsageError."""
    try:
        return BoundedPattern(re.compile(text), LIMIT_S)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{text!r} is not a regular expression: {error}") from error
