"""Boxes of an array: cut into rows, laid over each other, found in an array."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.checkpoint.arrays.boxes import Box, whole_box

SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)


@st.composite
def boxes_of(draw, shape):
    ends = [sorted(draw(st.tuples(*[st.integers(0, length)] * 2))) for length in shape]
    return Box(tuple(a for a, _ in ends), tuple(b - a for a, b in ends))


@st.composite
def two_boxes(draw):
    shape = draw(SHAPES)
    return shape, draw(boxes_of(shape)), draw(boxes_of(shape))


def marked(shape, *boxes):
    """How often each element is in one of the boxes."""
    count = np.zeros(shape, int)
    for box in boxes:
        count[box.slices] += 1
    return count


def test_ten_rows_for_four_workers():
    assert [(box.offset, box.shape) for box in Box((4, 0), (10, 2)).rows(4)] == [
        ((4, 0), (3, 2)),
        ((7, 0), (3, 2)),
        ((10, 0), (2, 2)),
        ((12, 0), (2, 2)),
    ]


def test_one_long_row_is_cut_along_the_next_axis():
    assert [box.shape for box in whole_box((1, 6)).rows(2)] == [(1, 3), (1, 3)]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_single_element_stays_whole(shape):
    assert list(whole_box(shape).rows(3)) == [whole_box(shape)]


@given(SHAPES, st.integers(1, 7))
def test_rows_hold_every_element_once_and_none_is_much_longer(shape, count):
    rows = list(whole_box(shape).rows(count))
    assert (marked(shape, *rows) == 1).all()
    assert len(rows) <= count
    sizes = [box.size for box in rows]
    assert max(sizes) - min(sizes) <= max(1, min(sizes))


@given(two_boxes())
def test_the_overlap_is_what_both_mark(case):
    shape, one, other = case
    common = one.overlap(other)
    assert common == other.overlap(one)
    expected = marked(shape, one) * marked(shape, other)
    assert np.array_equal(expected, marked(shape) if common is None else marked(shape, common))


@given(two_boxes())
def test_a_box_within_another_is_found_in_an_array_that_holds_the_other(case):
    shape, outer, other = case
    inner = outer.overlap(other)
    if inner is not None:
        array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        assert np.array_equal(array[outer.slices][inner.within(outer)], array[inner.slices])
