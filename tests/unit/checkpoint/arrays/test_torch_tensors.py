"""Tensors of torch on the host, with and without ml_dtypes: real torch, where it is installed."""

import sys

import numpy as np
import pytest

from tpuctl.checkpoint.arrays.array_tree import flatten, unflatten
from tpuctl.checkpoint.arrays.dtypes import raw_dtype
from tpuctl.checkpoint.format.commit_schema import Leaf
from tpuctl.checkpoint.read.targets import read_targets
from tpuctl.errors import UsageError

torch = pytest.importorskip("torch")

NAMES = [
    *("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"),
    *("complex64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"),
]


@pytest.fixture(autouse=True)
def no_ml_dtypes(monkeypatch):
    """A program with torch alone has none."""
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)


def stored(tree):
    """What a checkpoint has of a tree: its structure, its leaves, their elements."""
    structure, values = flatten(tree)
    raw = []
    for value in values:
        whole = np.zeros(value.shape, raw_dtype(value.dtype))
        for box, elements in value.own(0, 1):
            whole[(*box.slices, ...)] = elements
        raw.append(whole)
    return structure, [Leaf(each.dtype, each.shape, None, ()) for each in values], raw


def restored(tree, like):
    structure, leaves, raw = stored(tree)
    found = read_targets(structure, leaves, like)
    return unflatten(structure, [t.finish([a]) for t, a in zip(found, raw, strict=True)], like)


@pytest.mark.parametrize("name", NAMES)
def test_a_tensor_comes_back_bit_by_bit_whatever_its_strides(name):
    tensor = torch.arange(12).reshape(3, 4).T.to(getattr(torch, name))
    (found,) = restored([tensor], [torch.empty_like(tensor, device="meta")])
    assert (found.dtype, found.device.type) == (tensor.dtype, "cpu")
    assert found.tolist() == tensor.tolist()


def test_a_tensor_is_not_copied_to_be_saved():
    tensor = torch.ones(4, dtype=torch.bfloat16)
    (leaf,) = flatten([tensor])[1]
    ((_box, elements),) = leaf.own(0, 1)
    assert elements.ctypes.data == tensor.data_ptr()


def test_a_network_is_restored_into_a_new_one():
    network, other = (torch.nn.Linear(3, 2) for _ in range(2))
    other.load_state_dict(restored(network.state_dict(), other.state_dict()))
    assert torch.equal(network.weight, other.weight)


def test_what_needs_a_gradient_needs_one_again():
    (found,) = restored([torch.ones(2)], [torch.zeros(2, requires_grad=True)])
    assert found.requires_grad


def test_a_single_number_and_an_empty_tensor():
    number, empty = restored(
        [torch.tensor(4.0), torch.empty(0, 3)], [torch.tensor(0.0), torch.empty(0, 3)]
    )
    assert (number.item(), tuple(empty.shape)) == (4.0, (0, 3))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(2, device="meta"), "the tensor is on meta"),
        (torch.ones(2).to_sparse(), "the tensor is torch.sparse_coo"),
        (torch.ones(2, dtype=torch.complex128), "dtype torch.complex128 cannot be saved"),
    ],
)
def test_what_has_no_plain_numbers_on_the_host_is_refused(tensor, message):
    with pytest.raises(UsageError) as refused:
        flatten({"a": [tensor]})
    assert str(refused.value) == f"cannot save a/0: {message}"


def test_another_shape_is_refused():
    with pytest.raises(
        UsageError, match=r"float32 of shape \(2,\), like has float32 of shape \(3,\)"
    ):
        restored([torch.ones(2)], [torch.ones(3)])
