"""How long the programs of a chip took, and how many wait: for libtpu's `hlo.*` metrics.

An operation of a simulated chip is a program of its own.
"""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCALE_US = 0.1
GROWTH = 1.5
FINITE_BUCKETS = 46
"""Bucket 0 is below SCALE_US, the next ones grow by GROWTH up to 12 s, the last is above them."""
BOUNDS_US = [SCALE_US * GROWTH**number for number in range(FINITE_BUCKETS + 1)]


class Executions:
    """What one chip has executed since its program began, each with its modelled time.

    `with executions:` is a call of a thread: a chip executes one at a time, the others wait.
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean_us = 0.0
        self.squared_deviation = 0.0
        """Sum of (time - mean)^2, in us^2, by Welford's method."""
        self.buckets = [0] * (FINITE_BUCKETS + 2)
        self.calls = 0
        """How many calls are under way now."""

    def __enter__(self) -> None:
        self.calls += 1

    def __exit__(self, *_error: object) -> None:
        self.calls -= 1

    def note(self, seconds: float) -> None:
        """Add an execution that took so long."""
        time_us = 1e6 * seconds
        self.count += 1
        off_us = time_us - self.mean_us
        self.mean_us += off_us / self.count
        self.squared_deviation += off_us * (time_us - self.mean_us)
        self.buckets[bisect_right(BOUNDS_US, time_us)] += 1

    def report(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {
            "queue": max(0, self.calls - 1),
            "count": self.count,
            "mean_us": self.mean_us,
            "squared_deviation": self.squared_deviation,
            "buckets": list(self.buckets),
        }
