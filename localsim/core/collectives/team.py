"""Who is in which group of a grid's axis, and which worker has them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from localsim.core.wire.exchange import Exchange


@dataclass(frozen=True, slots=True)
class AxisGroups:
    """The groups along an axis: chip c is at place c // stride % size of its own."""

    size: int
    stride: int

    def group(self, chip: int) -> range:
        """The chips of the group that a chip is in, by place."""
        start = chip - self.place(chip) * self.stride
        return range(start, start + self.size * self.stride, self.stride)

    def place(self, chip: int) -> int:
        """The place of a chip in its group, from 0."""
        return chip // self.stride % self.size


@dataclass(frozen=True, slots=True)
class Team:
    """The chips of this worker, and the way to those of the others."""

    exchange: Exchange
    chips: range

    def worker(self, chip: int) -> int:
        """The id of the worker that has a chip."""
        return chip // len(self.chips)

    def groups(self, line: AxisGroups) -> list[range]:
        """The groups that own chips are in, in an order that all workers share."""
        return sorted({line.group(chip) for chip in self.chips}, key=lambda group: group.start)

    def places(self, group: range) -> Mapping[int, frozenset[int]]:
        """The places of each worker's chips in a group, by worker."""
        return _places(group, len(self.chips))


@lru_cache(4096)
def _places(group: range, chips_of_worker: int) -> Mapping[int, frozenset[int]]:
    by_worker = defaultdict(set)
    for place, chip in enumerate(group):
        by_worker[chip // chips_of_worker].add(place)
    return {worker: frozenset(places) for worker, places in by_worker.items()}
