"""The few sizes of batches that a model is compiled for, and how long each takes."""

from __future__ import annotations

import math
from collections.abc import Sequence

_WEIGHT = 0.2
"""Of the newest batch, in the moving average of its size."""
_PART_OF_TARGET = 0.5
"""A request waits for the batch before its own, and then for its own."""


def bucket_sizes(max_batch: int) -> list[int]:
    """The powers of two below the largest batch, and that."""
    return [*(2**power for power in range((max_batch - 1).bit_length())), max_batch]


class BatchTimes:
    """How long batches of each size take; decides how many rows may share one."""

    def __init__(self, sizes: Sequence[int], target_s: float | None) -> None:
        """Know no time yet; `sizes` ascend. Without a target any size will do."""
        self._sizes = list(sizes)
        self._limit_s = math.inf if target_s is None else target_s * _PART_OF_TARGET
        self._mean_s: dict[int, float] = {}
        self.row_limit = self._sizes[-1]
        """The largest size that leaves the latency within its target; all of them where none does,
        for then more requests in a batch cost the least."""

    def padded(self, rows: int) -> int:
        """The smallest size that holds so many rows."""
        return next(size for size in self._sizes if size >= rows)

    def record(self, size: int, took_s: float) -> None:
        """Take the time of a batch of that size into account."""
        before = self._mean_s.get(size, took_s)
        self._mean_s[size] = before + _WEIGHT * (took_s - before)
        within = [each for each in self._sizes if self._mean_s.get(each, 0) <= self._limit_s]
        self.row_limit = max(within, default=self._sizes[-1])

    def seconds_for(self, rows: int) -> float:
        """How long so many rows take in full batches, as far as that is known."""
        batches = -(-rows // self.row_limit)
        return batches * self._mean_s.get(self.row_limit, 0.0)
