"""Arrays in parts, for programs that split their model over the workers themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tpuctl.checkpoint.arrays.boxes import Box
from tpuctl.checkpoint.arrays.dtypes import Array, name_of, numpy_dtype, raw_view
from tpuctl.checkpoint.arrays.leaves import BoxView, ExpectedLeaf, LeafValue
from tpuctl.checkpoint.arrays.numpy_arrays import replicated_leaf
from tpuctl.errors import UsageError


class Shards:
    """An array of which this worker holds some boxes.

        Shards((1024, 64), np.float32, {(512, 0): weights})      worker 1 of 2 has the lower half

    Together the workers hold every element exactly once. In `like` it says which boxes to read.
    """

    def __init__(
        self, shape: Iterable[int], dtype: DTypeLike, boxes: Mapping[tuple[int, ...], Array]
    ) -> None:
        """The whole array's shape and dtype; the boxes, each by the index of its first element.

        Raises UsageError when a box is not within the array, or two have an element in common.
        """
        self.shape = tuple(int(length) for length in shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.boxes = {
            tuple(int(start) for start in offset): np.asarray(array)
            for offset, array in boxes.items()
        }
        _check(self.shape, self.placed())
        for array in self.boxes.values():
            if array.dtype.name != self.dtype.name:
                raise UsageError(f"a box of {array.dtype} in an array of {self.dtype}")

    def __repr__(self) -> str:
        return f"Shards({self.shape}, {self.dtype}, {self.placed()})"

    def placed(self) -> tuple[Box, ...]:
        """The boxes of the shards, in the order in which they were given."""
        return tuple(Box(offset, array.shape) for offset, array in self.boxes.items())


def describe(value: object, index: int) -> LeafValue | None:
    """The leaf of a Shards, None for another value."""
    if not isinstance(value, Shards):
        return None
    if 0 in value.shape:
        return replicated_leaf(np.empty(value.shape, value.dtype), index)
    parts = [
        (box, raw_view(array))
        for box, array in zip(value.placed(), value.boxes.values(), strict=True)
    ]

    def own(_worker_id: int, _worker_count: int) -> list[BoxView]:
        return parts

    return LeafValue(name_of(value.dtype), value.shape, own)


def expect(like: object, _dtype: str) -> ExpectedLeaf | None:
    """Read the boxes of `like` into new arrays; None when it is not a Shards."""
    if not isinstance(like, Shards):
        return None
    name, shape, placed = name_of(like.dtype), like.shape, like.placed()

    def finish(arrays: Sequence[Array]) -> Shards:
        dtype = numpy_dtype(name)
        boxes = zip(placed, arrays, strict=True)
        return Shards(shape, dtype, {box.offset: array.view(dtype) for box, array in boxes})

    return ExpectedLeaf(name, shape, placed, finish)


def _check(shape: tuple[int, ...], boxes: Sequence[Box]) -> None:
    for number, box in enumerate(boxes):
        if not len(box.offset) == len(box.shape) == len(shape):
            raise UsageError(f"a box at {box.offset} of shape {box.shape} in an array of {shape}")
        ends = zip(box.offset, box.shape, shape, strict=True)
        if not all(0 <= start <= reach - length for start, length, reach in ends):
            raise UsageError(f"the box {box.shape} at {box.offset} is not within {shape}")
        if any(box.overlap(other) for other in boxes[:number]):
            raise UsageError(f"the box at {box.offset} and another have elements in common")
        if not box.size and 0 not in shape:
            raise UsageError(f"the box at {box.offset} is empty")
