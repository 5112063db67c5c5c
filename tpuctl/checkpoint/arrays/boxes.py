"""Boxes of an array: on each axis the index at which they begin and their length."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Box:
    """A box of a global array: its first element and its extent, one number for each axis."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Its index in the global array, one slice for each axis."""
        return self.within(whole_box(self.shape))

    def within(self, outer: Box) -> tuple[slice, ...]:
        """Its index in an array that holds the elements of `outer`, one slice for each axis."""
        return tuple(
            slice(start - base, start - base + length)
            for start, base, length in zip(self.offset, outer.offset, self.shape, strict=True)
        )

    def overlap(self, other: Box) -> Box | None:
        """The box of the elements that both have, or None when they have none in common."""
        offset, shape = [], []
        for start, length, begins, reaches in zip(
            self.offset, self.shape, other.offset, other.shape, strict=True
        ):
            first = max(start, begins)
            count = min(start + length, begins + reaches) - first
            if count <= 0:
                return None
            offset.append(first)
            shape.append(count)
        return Box(tuple(offset), tuple(shape))

    def rows(self, count: int) -> Iterator[Box]:
        """Cut the box into at most `count` boxes, none of them empty, along its first long axis.

        Where the length does not divide, the first boxes are one longer.
        """
        total = self.row_count(count)
        return (self.row(index, total) for index in range(total))

    def row_count(self, count: int) -> int:
        """The number of boxes that `rows(count)` gives."""
        return max(1, min(count, self.shape[self._long_axis]) if self.shape else 1)

    def row(self, index: int, count: int) -> Box:
        """The box at `index` of `rows(count)`, which must give exactly `count`."""
        if count == 1:
            return self
        axis = self._long_axis
        length, longer = divmod(self.shape[axis], count)
        start = self.offset[axis] + index * length + min(index, longer)
        return Box(
            (*self.offset[:axis], start, *self.offset[axis + 1 :]),
            (*self.shape[:axis], length + (index < longer), *self.shape[axis + 1 :]),
        )

    @property
    def _long_axis(self) -> int:
        """The first along which it has more than one element."""
        return next((axis for axis, length in enumerate(self.shape) if length > 1), 0)


def whole_box(shape: tuple[int, ...]) -> Box:
    """The box of all elements of an array of that shape."""
    return Box((0,) * len(shape), shape)
