"""Lines of a log, so many a second: a client that errs in a loop does not fill the disk."""

from __future__ import annotations

from collections.abc import Callable

_LINES_PER_S = 20.0


class LineLog:
    """Writes lines, and how many it left out."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float]) -> None:
        """Write with `write`, one line a call."""
        self._write = write
        self._clock = clock
        self._credit = _LINES_PER_S
        self._at_s = clock()
        self._left_out = 0

    def error(self, text: str) -> None:
        """Write a line about a request that failed, or count it as left out."""
        now_s = self._clock()
        self._credit = min(_LINES_PER_S, self._credit + (now_s - self._at_s) * _LINES_PER_S)
        self._at_s = now_s
        if self._credit < 1:
            self._left_out += 1
            return
        self._credit -= 1
        if self._left_out:
            self._write(f"{self._left_out} errors were not logged")
            self._left_out = 0
        self._write(" ".join(text.split()))

    def event(self, text: str) -> None:
        """Write a line about the server, always."""
        self._write(text)
