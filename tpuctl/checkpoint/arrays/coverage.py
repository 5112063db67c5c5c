"""Whether boxes take an array apart: together they are all of it, and no element is in two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tpuctl.checkpoint.arrays.boxes import Box, whole_box


def covers(shape: tuple[int, ...], boxes: Sequence[Box]) -> bool:
    """Whether the boxes hold each element of an array of that shape exactly once.

    An empty array is covered by a single box of its shape.
    """
    array = whole_box(shape)
    if len(boxes) == 1 or array.size == 0:
        return list(boxes) == [array]
    inside = all(_is_inside(box, shape) for box in boxes)
    # Of the right size together, and none meets another: then nothing is missing either.
    return (
        inside
        and sum(box.size for box in boxes) == array.size
        and (_is_grid(boxes) or not _any_meet(boxes))
    )


def _is_inside(box: Box, shape: tuple[int, ...]) -> bool:
    return len(box.offset) == len(box.shape) == len(shape) and all(
        start >= 0 and length > 0 and start + length <= extent
        for start, length, extent in zip(box.offset, box.shape, shape, strict=True)
    )


def _is_grid(boxes: Sequence[Box]) -> bool:
    """Whether they are different cells of one grid: what a mesh makes, and no two of them meet.

    Asked in a time that grows as their number does; to compare them takes its square.
    """
    for axis in range(len(boxes[0].shape)):
        spans = [(box.offset[axis], box.offset[axis] + box.shape[axis]) for box in boxes]
        cuts = sorted({cut for span in spans for cut in span})
        neighbours = dict(zip(cuts, cuts[1:], strict=False))
        if any(neighbours.get(start) != end for start, end in spans):
            return False
    return len({box.offset for box in boxes}) == len(boxes)


def _any_meet(boxes: Sequence[Box], axis: int = 0) -> bool:
    """Whether two have an element in common, of boxes that are alike along the axes before."""
    if len(boxes) < 2:
        return False
    if axis == len(boxes[0].shape):
        return True
    slabs: dict[tuple[int, int], list[Box]] = defaultdict(list)
    for box in boxes:
        slabs[box.offset[axis], box.shape[axis]].append(box)
    spans = sorted(slabs)
    is_grid = all(a + length <= b for (a, length), (b, _) in zip(spans, spans[1:], strict=False))
    if is_grid:  # as a mesh of devices cuts it: no slab meets another
        return any(_any_meet(slab, axis + 1) for slab in slabs.values())
    return _any_two_meet(boxes, axis)


def _any_two_meet(boxes: Sequence[Box], axis: int) -> bool:
    """Compare each box with those that reach as far as its start."""
    active: list[Box] = []
    for box in sorted(boxes, key=lambda each: each.offset[axis]):
        start = box.offset[axis]
        active = [each for each in active if each.offset[axis] + each.shape[axis] > start]
        if any(box.overlap(each) for each in active):
            return True
        active.append(box)
    return False
