"""Ends a search by a regular expression that backtracks without end.

Agents on workers have it too: Python 3.8 and the standard library.
"""

from __future__ import annotations

import contextlib
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class ProcessorLimitError(Exception):
    """The processor time is over."""


@contextlib.contextmanager
def processor_limit(limit_s: float) -> Iterator[None]:
    """Raise ProcessorLimitError when what is in here takes that much processor time.

    For the main thread. Python's `re` looks for signals while it searches (Modules/_sre).
    """
    before = signal.signal(signal.SIGVTALRM, _give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _give_up(*_: Any) -> None:
    raise ProcessorLimitError
