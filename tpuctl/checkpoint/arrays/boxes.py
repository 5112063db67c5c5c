"""Boxes of an array: contiguous along every axis, where each begins and how far it goes."""

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
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Its index in the global array."""
        return self.within(whole_box(self.shape))

    def within(self, outer: Box) -> tuple[slice, ...]:
        """Its index in an array that holds the outer box."""
        return tuple(
            slice(start - base, start - base + length)
            for start, base, length in zip(self.offset, outer.offset, self.shape, strict=True)
        )

    def overlap(self, other: Box) -> Box | None:
        """What both have of the array, or None."""
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
        """At most `count` boxes that together are this one, none empty, along its first long axis.

        The first ones are one longer where it does not divide.
        """
        total = self.row_count(count)
        return (self.row(index, total) for index in range(total))

    def row_count(self, count: int) -> int:
        """How many boxes `rows` gives."""
        return max(1, min(count, self.shape[self._long_axis]) if self.shape else 1)

    def row(self, index: int, count: int) -> Box:
        """One of `rows`, of which there are exactly `count`."""
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
    """All of an array."""
    return Box((0,) * len(shape), shape)
