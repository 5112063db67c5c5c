"""Trees become a structure in JSON and leaves, and come back as they were."""

import json
import math
from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.checkpoint.arrays.array_tree import flatten, leaf_paths, unflatten, walk
from tpuctl.errors import UsageError

Moments = namedtuple("Moments", "mean variance")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT)
LEAVES = st.integers(0, 99).map(lambda number: np.full((2,), number))
TREES = st.recursive(
    VALUES | LEAVES,
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.lists(below, max_size=3).map(tuple),
        st.dictionaries(TEXT, below, max_size=3),
    ),
    max_leaves=8,
)


def same(one, other):
    """Equal in kind too, and NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return np.array_equal(one, other)


def arrays(leaves):
    """The arrays that were handed over."""
    return [array for leaf in leaves for _box, array in leaf.own(0, 1)]


def test_dicts_go_by_name_and_values_of_python_need_no_leaf():
    structure, leaves = flatten({"w": np.ones(2), "b": [np.float32(3), 7], "rate": 0.5})
    assert structure == {
        "dict": {
            "b": {"list": [{"scalar": 0}, {"int": 7}]},
            "rate": {"float": "0x1.0000000000000p-1"},
            "w": {"array": 1},
        }
    }
    assert [(leaf.dtype, leaf.shape, leaf.is_scalar) for leaf in leaves] == [
        ("float32", (), True),
        ("float64", (2,), False),
    ]


@given(TREES)
def test_a_tree_comes_back_through_json(tree):
    structure, leaves = flatten(tree)
    read = json.loads(json.dumps(structure))
    assert same(unflatten(read, arrays(leaves)), tree)
    assert [leaf.index for leaf in walk(read)] == list(range(len(leaves)))
    paths = leaf_paths(read)
    assert len(set(paths)) == len(paths) == len(leaves)


def test_paths_tell_names_with_slashes_from_others():
    tree = {"a": {"b": np.ones(1)}, "a/b": np.ones(1), "a~1b": np.ones(1)}
    assert leaf_paths(flatten(tree)[0]) == ["a/b", "a~1b", "a~01b"]
    assert leaf_paths(flatten(np.ones(1))[0]) == ["."]


def test_a_namedtuple_is_a_dict_until_like_says_otherwise():
    tree = {"adam": Moments(np.zeros(2), np.ones(3))}
    structure, leaves = flatten(tree)
    plain = unflatten(structure, arrays(leaves))
    assert sorted(plain["adam"]) == ["mean", "variance"]
    rebuilt = unflatten(structure, arrays(leaves), tree)
    assert isinstance(rebuilt["adam"], Moments)
    assert rebuilt["adam"].variance.shape == (3,)


@pytest.mark.parametrize(
    "like",
    [
        {"b": 1, "a": 2},
        OrderedDict(b=1, a=2),
        defaultdict(list, b=1, a=2),
        [Moments(1, [2, 3]), (4,)],
    ],
)
def test_containers_come_back_as_they_are_in_like_in_its_order(like):
    rebuilt = unflatten(flatten(like)[0], [], like)
    assert type(rebuilt) is type(like)
    assert rebuilt == like
    assert list(rebuilt) == list(like)


def test_what_a_state_dict_has_beside_its_entries_stays():
    like = OrderedDict(w=1)
    like._metadata = {"version": 2}
    assert unflatten(flatten({"w": 5})[0], [], like)._metadata == {"version": 2}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": {1: np.ones(1)}}, "cannot save a: the key 1 is not text"),
        ({"a": [np.ones(1), {2}]}, "cannot save a/1: a set cannot be saved"),
        ({"a": np.array(["x"])}, "cannot save a: dtype <U1 cannot be saved"),
        ({"a": np.array([None])}, "cannot save a: dtype object cannot be saved"),
        ({"a": np.ma.masked_array([1], [True])}, "cannot save a: a MaskedArray cannot be saved"),
        ({"a": b"bytes"}, "cannot save a: a bytes cannot be saved"),
        ({"a": 10**4000}, "cannot save a: a number of more than 4000 digits"),
        ({"a": "\ud800"}, "cannot save a: half a surrogate pair is not text"),
        ({"\ud800": 1}, r"cannot save .: the key '\ud800' is not text"),
        (object(), "cannot save .: a object cannot be saved"),
    ],
)
def test_what_cannot_be_saved_is_refused_with_its_path(tree, message):
    with pytest.raises(UsageError) as refused:
        flatten(tree)
    assert str(refused.value).startswith(message)


def test_a_tree_without_end_is_refused():
    tree = []
    tree.append(tree)
    with pytest.raises(UsageError, match="more than 100 levels"):
        flatten(tree)


@pytest.mark.parametrize(
    "structure",
    [
        {},
        [],
        {"array": 0, "scalar": 1},
        {"array": "0"},
        {"array": True},
        {"list": {"array": 0}},
        {"dict": [{"array": 0}]},
        {"set": []},
        {"list": [{"float": "much"}]},
        {"float": "0x1p99999"},
        {"int": 1.5},
    ],
)
def test_what_is_no_structure_is_refused(structure):
    with pytest.raises(ValueError, match="node|float"):
        list(walk(structure))
