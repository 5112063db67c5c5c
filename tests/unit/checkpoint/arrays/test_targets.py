"""What a program wants back decides what is read and what comes back."""

from collections import namedtuple

import numpy as np
import pytest

from tpuctl.checkpoint import Shards
from tpuctl.checkpoint.arrays.array_tree import flatten, unflatten
from tpuctl.checkpoint.arrays.boxes import Box
from tpuctl.checkpoint.arrays.dtypes import raw_dtype
from tpuctl.checkpoint.format.commit_schema import Leaf
from tpuctl.checkpoint.read.targets import left_out_paths, read_targets
from tpuctl.errors import UsageError

Moments = namedtuple("Moments", "mean variance")


class Saved:
    """A tree as a checkpoint has it."""

    def __init__(self, tree):
        self.structure, values = flatten(tree)
        self.leaves = [Leaf(each.dtype, each.shape, None, ()) for each in values]
        self.raw = [self._gather(each) for each in values]

    def _gather(self, value):
        whole = np.zeros(value.shape, raw_dtype(value.dtype))
        for box, elements in value.own(0, 1):
            whole[(*box.slices, ...)] = elements
        return whole

    def restore(self, like=None):
        """The tree, each box of it read as restoring does."""
        found = read_targets(self.structure, self.leaves, like)
        leaves = [
            target.finish([raw[(*box.slices, ...)].astype(target.dtype) for box in target.boxes])
            for target, raw in zip(found, self.raw, strict=True)
        ]
        return unflatten(self.structure, leaves, like)


def test_without_like_arrays_and_scalars_of_numpy_come_back():
    restored = Saved({"w": np.arange(6, dtype="i2").reshape(2, 3), "s": np.float32(2.5)}).restore()
    assert restored["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert restored["w"].dtype == np.int16
    assert type(restored["s"]) is np.float32


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4"])
def test_types_of_ml_dtypes_come_back(name):
    dtype = getattr(pytest.importorskip("ml_dtypes"), name)
    restored = Saved([np.array([[1, 2], [3, 4]], dtype)]).restore()
    assert restored[0].dtype == dtype
    assert restored[0].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("stored", "like", "kind"),
    [
        (np.float32(2), np.zeros((), np.float32), np.ndarray),
        (np.array(2.0), np.float64(0), np.float64),
        (np.float32(2), 0.0, float),
        (np.int64(2), 0, int),
        (np.bool_(1), False, bool),
    ],
)
def test_a_number_comes_back_as_the_kind_of_its_like(stored, like, kind):
    restored = Saved([stored]).restore([like])[0]
    assert type(restored) is kind
    assert restored == stored


def test_values_of_python_come_back_as_saved():
    saved = Saved({"step": 7, "best": 0.25, "name": None})
    like = {"step": 0, "best": None, "name": "before"}
    assert saved.restore(like) == {"step": 7, "best": 0.25, "name": None}


def test_namedtuples_are_rebuilt():
    restored = Saved(Moments(np.zeros(2), np.ones(3))).restore(Moments(np.empty(2), np.empty(3)))
    assert isinstance(restored, Moments)
    assert restored.variance.tolist() == [1, 1, 1]


def test_of_shards_only_the_boxes_are_read():
    saved = Saved([np.arange(12.0).reshape(4, 3)])
    like = [Shards((4, 3), np.float64, {(2, 0): np.empty((1, 3)), (0, 1): np.empty((2, 2))})]
    (target,) = read_targets(saved.structure, saved.leaves, like)
    assert target.boxes == (Box((2, 0), (1, 3)), Box((0, 1), (2, 2)))
    (restored,) = saved.restore(like)
    assert restored.boxes[2, 0].tolist() == [[6, 7, 8]]
    assert restored.boxes[0, 1].tolist() == [[1, 2], [4, 5]]


@pytest.mark.parametrize(
    ("like", "message"),
    [
        (
            {"w": np.ones((2, 4)), "b": [1]},
            "w: the checkpoint has float64 of shape (2, 3), like has float64 of shape (2, 4)",
        ),
        (
            {"w": np.ones((2, 3), np.float32), "b": [1]},
            "w: the checkpoint has float64 of shape (2, 3), like has float32 of shape (2, 3)",
        ),
        (
            {"w": 1.0, "b": [1]},
            "w: the checkpoint has float64 of shape (2, 3), like has float64 of shape ()",
        ),
        ({}, ".: the checkpoint has 'b' and 1 more, like has not"),
        ({"w": np.ones((2, 3)), "b": []}, "b: the checkpoint has '0', like has not"),
        ({"w": np.ones((2, 3)), "c": 1}, ".: like has 'c', the checkpoint has not"),
        ({"w": 0, "b": [1], "x": 0, "y": 0}, ".: like has 'x' and 1 more, the checkpoint has not"),
        ({"w": np.ones((2, 3)), "b": [1, 2]}, "b: like has '1', the checkpoint has not"),
        ({"w": np.ones((2, 3)), "b": (1,)}, "b: the checkpoint has a list, like has a tuple"),
        ({"w": np.ones((2, 3)), "b": {"0": 1}}, "b: the checkpoint has a list, like has a dict"),
        (
            {"w": np.ones((2, 3)), "b": [np.ones(1)]},
            "b/0: the checkpoint has the value 1, like has a ndarray",
        ),
        ({"w": None, "b": [1]}, "w: the checkpoint has an array, like has a NoneType"),
        ({"w": "text", "b": [1]}, "w: the checkpoint has an array, like has a str"),
    ],
)
def test_another_model_is_refused_with_the_path_and_both_sides(like, message):
    with pytest.raises(UsageError) as refused:
        Saved({"w": np.ones((2, 3)), "b": [1]}).restore(like)
    assert str(refused.value) == message


def test_a_part_of_a_tree_is_what_the_dicts_of_like_name():
    saved = Saved({"model": {"w": np.ones(2), "b": np.zeros(3)}, "optimizer": [np.ones(4)]})
    like = {"model": {"w": np.empty(2)}}
    restored = saved.restore(like)
    assert list(restored) == ["model"]
    assert {name: each.tolist() for name, each in restored["model"].items()} == {"w": [1, 1]}
    targets = read_targets(saved.structure, saved.leaves, like)
    assert left_out_paths(saved.structure, targets) == ("model/b", "optimizer/0")
