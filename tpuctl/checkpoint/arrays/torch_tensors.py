"""Tensors of torch in the memory of the host: the same on all workers, as arrays of numpy are.

Their bits go through integers of torch, so that bfloat16 and float8 need no ml_dtypes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tpuctl.checkpoint.arrays.boxes import whole_box
from tpuctl.checkpoint.arrays.dtypes import DTYPES, Array, raw_dtype
from tpuctl.checkpoint.arrays.leaves import ExpectedLeaf, LeafValue
from tpuctl.checkpoint.arrays.numpy_arrays import replicated_leaf
from tpuctl.errors import UsageError


def describe(value: object, index: int) -> LeafValue | None:
    """The leaf of a tensor, None for another value; UsageError when it is not in host memory."""
    torch: Any = sys.modules["torch"]
    if not isinstance(value, torch.Tensor):
        return None
    tensor: Any = value
    name = _name(tensor)
    _check_place(tensor, {"cpu"})
    try:
        return replicated_leaf(_elements(torch, tensor, name), index, name)
    except (RuntimeError, TypeError, ValueError) as error:
        # A distributed, quantised or nested tensor is one of another class.
        raise UsageError(f"a {type(value).__name__} cannot be saved: {error}") from error


def expect(like: object, _dtype: str) -> ExpectedLeaf | None:
    """Read into a new tensor on the host; `like` may have no memory (device `meta`)."""
    torch: Any = sys.modules["torch"]
    if not isinstance(like, torch.Tensor):
        return None
    tensor: Any = like
    name, shape = _name(tensor), tuple(tensor.shape)
    _check_place(tensor, {"cpu", "meta"})
    dtype, needs_gradient = tensor.dtype, tensor.requires_grad

    def finish(arrays: Sequence[Array]) -> object:
        array = arrays[0].view(_signed(name)) if DTYPES[name].is_foreign else arrays[0]
        return torch.from_numpy(array).view(dtype).requires_grad_(needs_gradient)

    return ExpectedLeaf(name, shape, (whole_box(shape),), finish)


def _elements(torch: Any, tensor: Any, name: str) -> Array:
    plain = tensor.detach().resolve_conj().resolve_neg()
    if not DTYPES[name].is_foreign:
        elements: Array = plain.numpy()
        return elements
    elements = plain.view(getattr(torch, _signed(name).name)).numpy()
    return elements.view(raw_dtype(name))


def _signed(name: str) -> np.dtype[Any]:
    """Integers with as many bits: torch of before 2.3 has no unsigned ones of 16."""
    return np.dtype(f"i{DTYPES[name].bits // 8}")


def _name(tensor: Any) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES or DTYPES[name].bits < 8:
        raise UsageError(f"dtype {tensor.dtype} cannot be saved")
    return name


def _check_place(tensor: Any, devices: set[str]) -> None:
    if tensor.device.type not in devices:
        raise UsageError(f"the tensor is on {tensor.device}", hint="save tensor.cpu()")
    if str(tensor.layout) != "torch.strided":
        raise UsageError(f"the tensor is {tensor.layout}", hint="save tensor.to_dense()")
