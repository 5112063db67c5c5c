"""Boxes that are an array taken apart, and boxes that are not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.checkpoint.arrays.boxes import Box, whole_box
from tpuctl.checkpoint.arrays.coverage import covers

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@st.composite
def inside(draw, shape):
    starts = tuple(draw(st.integers(0, length - 1)) for length in shape)
    lengths = (
        draw(st.integers(1, length - start)) for start, length in zip(starts, shape, strict=True)
    )
    return Box(starts, tuple(lengths))


@given(st.data(), SHAPES)
def test_it_is_as_when_each_element_is_counted(data, shape):
    boxes = data.draw(st.lists(inside(shape), max_size=6))
    counts = np.zeros(shape, int)
    for box in boxes:
        counts[box.slices] += 1
    assert covers(shape, boxes) == bool((counts == 1).all())


@st.composite
def taken_apart(draw, box):
    if not draw(st.booleans()):
        return [box]
    parts = list(box.rows(draw(st.integers(2, 3))))
    return [piece for part in parts for piece in (draw(taken_apart(part)) if parts[1:] else [part])]


@given(st.data(), SHAPES)
def test_what_was_taken_apart_covers_until_one_is_missing_or_twice_there(data, shape):
    boxes = data.draw(taken_apart(whole_box(shape)).flatmap(st.permutations))
    assert covers(shape, boxes)
    assert not covers(shape, boxes[1:])
    assert not covers(shape, [*boxes, boxes[0]])


@pytest.mark.parametrize(
    ("shape", "boxes", "expected"),
    [
        ((), [Box((), ())], True),
        ((), [], False),
        ((), [Box((), ()), Box((), ())], False),
        ((0, 3), [Box((0, 0), (0, 3))], True),
        ((0, 3), [], False),
        ((0, 3), [Box((0, 0), (0, 2))], False),
        ((2,), [Box((0,), (3,))], False),
        ((2,), [Box((-1,), (2,))], False),
        ((2,), [Box((0, 0), (2, 1))], False),
        ((4,), [Box((0,), (2,)), Box((1,), (2,))], False),
    ],
)
def test_edges(shape, boxes, expected):
    assert covers(shape, boxes) is expected


def mesh(count, rows, columns):
    """The boxes of an array of count x count cells of that size."""
    places = [(i * rows, j * columns) for i in range(count) for j in range(count)]
    return (count * rows, count * columns), [Box(place, (rows, columns)) for place in places]


def test_the_boxes_of_a_mesh_are_not_compared_with_one_another(monkeypatch):
    shape, boxes = mesh(16, 2, 3)
    with monkeypatch.context() as patch:
        patch.setattr(Box, "overlap", None)
        assert covers(shape, boxes)
    assert not covers(shape, [*boxes[1:], boxes[1]])
    assert not covers(shape, [*boxes[1:], Box((0, 1), (2, 3))])
    # Each half of a cell on its own is no grid any more, and covers the array all the same.
    assert covers(shape, [*boxes[1:], *boxes[0].rows(2)])
