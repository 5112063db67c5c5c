"""When an attempt told its steps, and what follows from that."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from tpuctl.models.job import Attempt


@dataclass(frozen=True, slots=True)
class StepTable:
    """Steps in rising order and when each was reported, in seconds of the supervisor's clock."""

    started_s: float
    """When the program started."""
    rows: tuple[tuple[int, float], ...]
    """At least two."""

    @classmethod
    def of(cls, attempt: Attempt) -> StepTable | None:
        """The table of an attempt; None where fewer than two steps were reported."""
        if attempt.started_s is None or len(attempt.step_times) < 2:  # noqa: PLR2004
            return None
        pairs = sorted((int(step), after_s) for step, after_s in attempt.step_times.items())
        return cls(attempt.started_s, tuple((n, attempt.started_s + at) for n, at in pairs))

    def begin_s(self, resume_step: int) -> float:
        """When the first step began: the mean time of a step before it was reported.

        Where several steps are reported at once, so many steps before.
        """
        (first, first_s), (second, _), (last, last_s) = self.rows[0], self.rows[1], self.rows[-1]
        mean_s = (last_s - first_s) / (last - first)
        made = max(1, min(first - resume_step, second - first))
        return max(self.started_s, first_s - made * mean_s)

    def told_s(self, step: int) -> float:
        """When a step was reported; between two that are known, as if all took equally long."""
        at = bisect_left(self.rows, (step, float("-inf")))
        if at == len(self.rows):
            return self.rows[-1][1]
        (next_step, next_s), (before, before_s) = self.rows[at], self.rows[max(at - 1, 0)]
        if next_step == before:
            return next_s
        return before_s + (next_s - before_s) * (step - before) / (next_step - before)
