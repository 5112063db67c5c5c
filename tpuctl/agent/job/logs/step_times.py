"""A bounded table of when a program told its steps. Python 3.8."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_ROWS = 32
FIRST_ROWS = 2
"""These are always kept: how long the first steps took, and how many were reported at a time."""


class StepTimes:
    """Steps and the seconds from the start of the program to the moment when each was reported.

    Of a long run every n-th step is kept, as many as fit, and the last one.
    """

    def __init__(self, began: float) -> None:
        """`began` is the start of the program, by the clock of the times that `note` is given."""
        self.began = began
        self.rows: list[tuple[int, float]] = []
        self.last: tuple[int, float] | None = None
        self.told = 0
        self.every = 1

    def note(self, said: dict[str, Any], now: float) -> None:
        """Add the `step` that was said now; one that is not above the last one is left out."""
        step = said.get("step")
        if step is None or (self.last is not None and step <= self.last[0]):
            return
        self.last = step, round(max(0.0, now - self.began), 3)
        self.told += 1
        if self.told <= FIRST_ROWS or self.told % self.every == 0:
            self.rows.append(self.last)
        if len(self.rows) >= MOST_ROWS:
            self.rows[FIRST_ROWS:] = self.rows[FIRST_ROWS + 1 :: 2]
            self.every *= 2

    def table(self) -> dict[str, float]:
        """Return the seconds by step, the steps in rising order."""
        rows = [*self.rows, self.last] if self.last is not None else []
        return {str(step): after_s for step, after_s in rows}
