"""Which worker predicts which of the units that are not done: pure functions of its index.

No queue is kept anywhere. Each worker begins with a part of its own. One that has nothing left to
do helps with what others have not done; a unit that two predict is written once, by whoever is
first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


def own_share(units: Sequence[int], worker: int, workers: int) -> Sequence[int]:
    """The units that a worker begins with: each unit is in the share of one worker.

    They follow each other, so that what is read of an input once serves for the next unit.
    """
    count = len(units)
    return units[count * worker // workers : count * (worker + 1) // workers]


def next_to_help(
    units: Sequence[int], done: Collection[int], tried: Collection[int], worker: int, workers: int
) -> int | None:
    """A unit that is not done and that the worker has not tried, None without any.

    Workers go through their shares from the front: help comes from the back, and each helper
    begins at another place.
    """
    left = [unit for unit in reversed(units) if unit not in done and unit not in tried]
    return left[len(left) * worker // workers] if left else None
