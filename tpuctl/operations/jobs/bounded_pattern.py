"""A regular expression that is given up when one line takes it too long."""

import re
from dataclasses import dataclass

from tpuctl.errors import UsageError
from tpuctl.processor_limit import ProcessorLimitError, processor_limit

LIMIT_S = 2.0
"""Processor time for one line; what backtracks without end takes years."""


@dataclass(frozen=True, slots=True)
class BoundedPattern:
    """A regular expression for lines; its searches belong to the main thread."""

    pattern: re.Pattern[str]

    def search(self, text: str) -> re.Match[str] | None:
        """Where the expression is found in a line; raises UsageError when that takes too long."""
        try:
            with processor_limit(LIMIT_S):
                return self.pattern.search(text)
        except ProcessorLimitError:
            raise UsageError(
                f"{self.pattern.pattern!r} takes more than {LIMIT_S:g} s for one line",
                hint="put no repeat within a repeat: a+ in place of (a+)+",
            ) from None


def compile_pattern(text: str) -> BoundedPattern:
    """The expression that a text is; raises UsageError."""
    try:
        return BoundedPattern(re.compile(text))
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{text!r} is no regular expression: {error}") from error
