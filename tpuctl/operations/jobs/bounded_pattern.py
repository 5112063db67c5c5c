"""A regular expression that is given up when one line takes it too long."""

import re
import signal
from dataclasses import dataclass
from typing import Any

from tpuctl.errors import UsageError

LIMIT_S = 2.0
"""Processor time for one line; what backtracks without end takes years."""


class _TooLongError(Exception):
    """The time for one line is over."""


@dataclass(frozen=True, slots=True)
class BoundedPattern:
    """A regular expression for lines; its searches belong to the main thread.

    Python's `re` looks for signals while it searches (Modules/_sre), so a timer ends it.
    """

    pattern: re.Pattern[str]

    def search(self, text: str) -> re.Match[str] | None:
        """Where the expression is found in a line; raises UsageError when that takes too long."""
        before = signal.signal(signal.SIGVTALRM, _give_up)
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
        try:
            return self.pattern.search(text)
        except _TooLongError:
            raise UsageError(
                f"{self.pattern.pattern!r} takes more than {LIMIT_S:g} s for one line",
                hint="put no repeat within a repeat: a+ in place of (a+)+",
            ) from None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)


def compile_pattern(text: str) -> BoundedPattern:
    """The expression that a text is; raises UsageError."""
    try:
        return BoundedPattern(re.compile(text))
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{text!r} is no regular expression: {error}") from error


def _give_up(*_: Any) -> None:
    raise _TooLongError
