"""Durations counted in buckets of one percent: percentiles of any number in bounded memory."""

import math
from collections import Counter
from dataclasses import dataclass, field

SHORTEST_S = 1e-6
"""Shorter durations are counted as this one."""
GROWTH = 1.01
"""Each bucket ends so many times later than the one before: the error of a percentile."""


@dataclass
class DurationHistogram:
    """Counts of durations in seconds; from a microsecond to an hour there are 2,200 buckets."""

    count: int = 0
    sum_s: float = 0.0
    max_s: float = 0.0
    _counts: Counter[int] = field(default_factory=Counter)

    def add(self, duration_s: float) -> None:
        """Count one duration."""
        self.count += 1
        self.sum_s += duration_s
        self.max_s = max(self.max_s, duration_s)
        self._counts[_bucket_of(duration_s)] += 1

    @property
    def mean_s(self) -> float | None:
        """The exact mean; None without a duration."""
        return self.sum_s / self.count if self.count else None

    def percentile_s(self, percent: float) -> float | None:
        """The least duration that `percent` of all do not exceed, or up to one percent more.

        This is the nearest-rank definition; None without a duration.
        """
        # Rounded first: 99.9 % of 1000 is 999, and a hair more in binary fractions.
        rank = max(1, math.ceil(round(percent / 100 * self.count, 6)))
        passed = 0
        for bucket in sorted(self._counts):
            passed += self._counts[bucket]
            if passed >= rank:
                return min(_end_of(bucket), self.max_s)
        return None

    def buckets(self) -> list[tuple[float, int]]:
        """The buckets that are not empty: the duration at which each ends, and its count."""
        return [(_end_of(bucket), self._counts[bucket]) for bucket in sorted(self._counts)]


def _bucket_of(duration_s: float) -> int:
    """The first bucket that does not end before a duration."""
    if duration_s <= SHORTEST_S:
        return 0
    return math.ceil(round(math.log(duration_s / SHORTEST_S, GROWTH), 9))


def _end_of(bucket: int) -> float:
    return SHORTEST_S * GROWTH**bucket
