"""Which bytes of which objects are needed, and where in memory they belong.

A part of a leaf and an array that is read may have any box in common. Bytes that follow one another
in both are read to where they belong; all others are read aside and put in place afterwards.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpuctl.checkpoint.arrays.boxes import Box
from tpuctl.checkpoint.arrays.dtypes import DTYPES, Array, allocate_aligned, unpack
from tpuctl.checkpoint.format.commit_schema import Commit, Leaf
from tpuctl.checkpoint.read.targets import ReadTarget
from tpuctl.errors import IntegrityError

Bytes = NDArray[np.uint8]


class ByteRange(NamedTuple):
    """Bytes from start up to, not including, end."""

    start: int
    end: int


class DirectRead(NamedTuple):
    """A range of bytes of an object, and the memory that takes them as they are."""

    span: ByteRange
    memory: Bytes


@dataclass(frozen=True)
class PartOverlap:
    """The elements that a stored part and an array have in common.

    The last axis of both boxes is the bytes of an element. Elements of four bits have a byte each,
    in the part too: it is unpacked as it comes.
    """

    start: int
    """Where the part begins in its object."""
    part: Box
    array: Box
    memory: Bytes
    """The memory of the array, in its shape."""
    common: Box
    is_packed: bool

    @property
    def size_bytes(self) -> int:
        """The bytes of the whole part where it is stored."""
        return (self.part.size + 1) // 2 if self.is_packed else self.part.size

    def spans(self, gap_bytes: int) -> Iterator[ByteRange]:
        """Yield the bytes of the object that it takes, in order, with the shorter gaps."""
        within = self.common.within(self.part)
        strides = [math.prod(self.part.shape[axis + 1 :]) for axis in range(len(within))]
        # Along the first axes each index is a place of its own, along the others all are near.
        outer = sum(stride >= gap_bytes for stride in strides)
        first, last = (
            sum(map(operator.mul, corner, strides[outer:]))
            for corner in (
                [place.start for place in within[outer:]],
                [place.stop - 1 for place in within[outer:]],
            )
        )
        for index in itertools.product(*(range(p.start, p.stop) for p in within[:outer])):
            base = sum(map(operator.mul, index, strides))
            yield self._stored(base + first, base + last + 1)

    def direct(self) -> DirectRead | None:
        """The bytes to read straight into the array, None unless they are one run in both."""
        if self.is_packed or not (
            _is_run(self.common, self.part) and _is_run(self.common, self.array)
        ):
            return None
        start = self.start + _first(self.common, self.part)
        to = _first(self.common, self.array)
        size = self.common.size
        return DirectRead(ByteRange(start, start + size), self.memory.reshape(-1)[to : to + size])

    def put(self, start: int, data: Bytes) -> None:
        """Put in place what it takes of `data`, the bytes of the object from `start` on."""
        first = max(start, self.start)
        data = data[first - start : self.start + self.size_bytes - start]
        first -= self.start
        if self.is_packed:
            first *= 2
            data = unpack(data, min(2 * data.size, self.part.size - first))
        for box in contiguous_boxes(self.part, first, data.size):
            piece, data = data[: box.size].reshape(box.shape), data[box.size :]
            if (common := box.overlap(self.common)) is not None:
                self.memory[common.within(self.array)] = piece[common.within(box)]

    def _stored(self, first: int, end: int) -> ByteRange:
        if self.is_packed:
            first, end = first // 2, (end + 1) // 2
        return ByteRange(self.start + first, self.start + end)


class NeededBlock(NamedTuple):
    """A block of an object, and the overlaps that take something of it."""

    object: int
    number: int
    overlaps: Sequence[PartOverlap]


def allocate(targets: Sequence[ReadTarget]) -> list[list[Array]]:
    """An array without content for each box of each target.

    Raises IntegrityError when there can be no such array: nobody can have saved it.
    """
    try:
        return [[allocate_aligned(box.shape, each.dtype) for box in each.boxes] for each in targets]
    except (ValueError, OverflowError) as error:
        raise IntegrityError(f"COMMIT describes an array that cannot exist: {error}") from error


def needed_blocks(
    commit: Commit, targets: Sequence[ReadTarget], arrays: Sequence[Sequence[Array]]
) -> list[NeededBlock]:
    """The blocks that hold something that is needed, in the order of the objects."""
    found: Mapping[tuple[int, int], list[PartOverlap]] = defaultdict(list)
    for leaf, target, memory in zip(commit.leaves, targets, arrays, strict=True):
        for number, want in _overlaps(leaf, target, memory):
            for block in _numbers(want, commit.block_bytes):
                found[number, block].append(want)
    return [NeededBlock(*place, found[place]) for place in sorted(found)]


def with_headers(blocks: Sequence[NeededBlock]) -> list[NeededBlock]:
    """These blocks, and the first block of every object that one of them is of."""
    there = {(block.object, block.number) for block in blocks}
    firsts = {(block.object, 0) for block in blocks} - there
    return sorted(
        [*blocks, *(NeededBlock(*place, ()) for place in firsts)], key=lambda block: block[:2]
    )


def contiguous_boxes(box: Box, first: int, count: int) -> Iterator[Box]:
    """Yield the boxes that `count` elements of a box are, from element `first` on in C order."""
    if not box.shape:
        yield from [box] * bool(count)
        return
    inner = math.prod(box.shape[1:])
    while count:
        row, skipped = divmod(first, inner)
        start = box.offset[0] + row
        if not skipped and count >= inner:
            taken = count // inner * inner
            yield Box((start, *box.offset[1:]), (count // inner, *box.shape[1:]))
        else:
            taken = min(count, inner - skipped)
            for each in contiguous_boxes(Box(box.offset[1:], box.shape[1:]), skipped, taken):
                yield Box((start, *each.offset), (1, *each.shape))
        first, count = first + taken, count - taken


def _overlaps(
    leaf: Leaf, target: ReadTarget, arrays: Sequence[Array]
) -> Iterator[tuple[int, PartOverlap]]:
    is_packed = DTYPES[leaf.dtype].bits < 8
    width = target.dtype.itemsize
    # Axes of length 1 say nothing, and numpy has no axis to spare for the bytes of an element.
    axes = [axis for axis, length in enumerate(leaf.shape) if length != 1]
    boxes = [_in_bytes(box, axes, width) for box in target.boxes]
    views = [
        (box, array.reshape(-1).view(np.uint8).reshape(box.shape))
        for box, array in zip(boxes, arrays, strict=True)
        if box.size
    ]
    for part in leaf.parts:
        stored = _in_bytes(part.box, axes, width)
        for box, memory in views:
            if (common := stored.overlap(box)) is not None:
                yield part.object, PartOverlap(part.start, stored, box, memory, common, is_packed)


def _in_bytes(box: Box, axes: Sequence[int], width: int) -> Box:
    offset, shape = ([values[axis] for axis in axes] for values in (box.offset, box.shape))
    return Box((*offset, 0), (*shape, width))


def _numbers(want: PartOverlap, block_bytes: int) -> Iterator[int]:
    done = -1
    for span in want.spans(block_bytes):
        yield from range(
            max(done + 1, span.start // block_bytes), (span.end - 1) // block_bytes + 1
        )
        done = (span.end - 1) // block_bytes


def _is_run(box: Box, outer: Box) -> bool:
    """Whether the elements of a box follow one another in the outer one."""
    long = itertools.dropwhile(lambda pair: pair[0] == 1, zip(box.shape, outer.shape, strict=True))
    return all(length == extent for length, extent in itertools.islice(long, 1, None))


def _first(box: Box, outer: Box) -> int:
    """How many elements of the outer one come before those of the box."""
    first = 0
    for part, length in zip(box.within(outer), outer.shape, strict=True):
        first = first * length + part.start
    return first
