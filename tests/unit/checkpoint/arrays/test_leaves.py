"""Leaves: over all workers every element is stored once, and nothing of it is copied."""

import json
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.checkpoint import Shards
from tpuctl.checkpoint.arrays import leaves
from tpuctl.checkpoint.arrays.boxes import Box
from tpuctl.checkpoint.arrays.leaf_types import describe_leaf
from tpuctl.checkpoint.arrays.leaves import LEAST_SHARE
from tpuctl.errors import UsageError

SHAPES = st.lists(st.integers(0, 6), max_size=3).map(tuple)


def owned(value, worker_count, index=0):
    """Whose box is where: worker -> the shapes of its boxes."""
    leaf = describe_leaf(value, index)
    return [
        [(box.offset, box.shape) for box, _ in leaf.own(worker_id, worker_count)]
        for worker_id in range(worker_count)
    ]


def test_each_worker_stores_its_rows():
    assert owned(np.zeros((3, LEAST_SHARE), np.int8), 2) == [
        [((0, 0), (2, LEAST_SHARE))],
        [((2, 0), (1, LEAST_SHARE))],
    ]


def test_what_is_small_goes_whole_to_another_worker_for_each_leaf():
    small = np.zeros((2, LEAST_SHARE - 1), np.int8)
    assert owned(small, 2) == [[((0, 0), small.shape)], []]
    assert owned(small, 2, index=1) == [[], [((0, 0), small.shape)]]


def test_what_has_too_few_rows_goes_to_another_worker_for_each_leaf():
    assert owned(np.zeros((2, 9)), 3, index=1) == [[], [((0, 0), (2, 9))], []]
    assert owned(np.float32(1), 3, index=5) == [[], [], [((), ())]]


@given(SHAPES, st.integers(1, 5), st.integers(0, 9), st.sampled_from([1, 4, LEAST_SHARE]))
def test_over_all_workers_every_element_is_stored_once(shape, worker_count, index, least):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    leaf = describe_leaf(array, index)
    with mock.patch.object(leaves, "LEAST_SHARE", least):
        parts = [part for i in range(worker_count) for part in leaf.own(i, worker_count)]
    found, times = np.zeros_like(array), np.zeros_like(array)
    for box, elements in parts:
        assert not elements.size or np.shares_memory(elements, array)
        found[(*box.slices, ...)] = elements
        times[(*box.slices, ...)] += 1
    assert np.array_equal(found, array)
    assert (times == 1).all()
    assert array.size or len(parts) == 1


def test_a_program_that_splits_its_model_says_which_boxes_it_holds():
    lower = np.ones((2, 3), np.float32)
    leaf = describe_leaf(Shards((4, 3), np.float32, {(2, 0): lower}), 0)
    assert (leaf.dtype, leaf.shape) == ("float32", (4, 3))
    ((box, elements),) = leaf.own(1, 2)
    assert box == Box((2, 0), (2, 3))
    assert np.shares_memory(elements, lower)


def test_where_a_box_is_may_be_computed_with_numpy():
    rows = np.arange(0, 4, 2)
    shards = Shards(np.array([4, 3]), np.int8, {(rows[1], 0): np.ones((2, 3), np.int8)})
    assert (
        json.dumps([shards.shape, [box.offset for box in shards.placed()]]) == "[[4, 3], [[2, 0]]]"
    )


def test_shards_of_an_empty_array_are_stored_once():
    empty = Shards((0, 3), np.int8, {})
    assert sorted(map(len, owned(empty, 3))) == [0, 0, 1]


@pytest.mark.parametrize(
    ("boxes", "message"),
    [
        ({(0,): np.ones((2, 2))}, "a box at (0,) of shape (2, 2) in an array of (4, 4)"),
        ({(3, 0): np.ones((2, 2))}, "the box (2, 2) at (3, 0) is not within (4, 4)"),
        ({(-1, 0): np.ones((2, 2))}, "the box (2, 2) at (-1, 0) is not within (4, 4)"),
        (
            {(0, 0): np.ones((2, 2)), (1, 1): np.ones((2, 2))},
            "the box at (1, 1) and another have elements in common",
        ),
        ({(0, 0): np.ones((0, 2))}, "the box at (0, 0) is empty"),
        ({(0, 0): np.ones((2, 2), np.int8)}, "a box of int8 in an array of float64"),
    ],
)
def test_shards_that_make_no_sense_are_refused(boxes, message):
    with pytest.raises(UsageError) as refused:
        Shards((4, 4), np.float64, boxes)
    assert str(refused.value) == message
