"""A leaf of a tree: its dtype and shape, and the boxes of it that a worker stores or needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpuctl.checkpoint.arrays.boxes import Box
from tpuctl.checkpoint.arrays.dtypes import Array

BoxView = tuple[Box, Array]
"""A box of a leaf and a view of its elements, as `dtypes.raw` has them."""
LEAST_SHARE = 16 * 1024
"""Elements: what would give each holder fewer is not cut. Every part is an entry of COMMIT."""


@dataclass(frozen=True)
class LeafValue:
    """An array as a program handed it over; nothing of it is copied."""

    dtype: str
    shape: tuple[int, ...]
    own: Callable[[int, int], list[BoxView]] = field(repr=False)
    """What worker i of N stores of it; over all workers every element once."""
    sharding: Mapping[str, Any] | None = None
    is_scalar: bool = False
    """Whether it is a single number of numpy, not an array without axes."""


@dataclass(frozen=True)
class ExpectedLeaf:
    """A leaf as a program wants it back, and which boxes of it this worker needs."""

    dtype: str
    shape: tuple[int, ...]
    boxes: tuple[Box, ...]
    finish: Callable[[Sequence[Array]], object] = field(repr=False)
    """The leaf out of raw arrays, one for each box in their order, which become its own."""


def cut(elements: Array, outer: Box, box: Box) -> Array:
    """A view of `box` in `elements`, which are those of `outer`; a view even without axes."""
    if box == outer:
        return elements
    index: Any = (*box.within(outer), ...)
    view: Array = elements[index]
    return view


def share(box: Box, holders: Iterable[int], worker_id: int, index: int) -> list[Box]:
    """The boxes that this worker stores of a box of leaf `index` that several workers hold.

    Each holder stores a range of its rows. A box that is small, or has fewer rows than holders,
    goes whole to one of them, another one for each leaf.
    """
    workers = sorted(holders)
    if worker_id not in workers:
        return []
    mine, count = workers.index(worker_id), len(workers)
    if box.size >= count * LEAST_SHARE and box.row_count(count) == count:
        return [box.row(mine, count)]
    return [box] if index % count == mine else []
