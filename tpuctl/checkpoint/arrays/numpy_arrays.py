"""Arrays and scalars of numpy: the same on all workers, so that each stores a range of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tpuctl.checkpoint.arrays.boxes import whole_box
from tpuctl.checkpoint.arrays.dtypes import Array, name_of, numpy_dtype, raw_view
from tpuctl.checkpoint.arrays.leaves import BoxView, ExpectedLeaf, LeafValue, cut, share

_PYTHON: Mapping[type, tuple[str, ...]] = {
    bool: ("bool",),
    int: ("int", "uint"),
    float: ("float", "bfloat"),
}
"""Numbers of Python, and how the names of the dtypes begin that they stand for."""


def describe(value: object, index: int) -> LeafValue | None:
    """The leaf of an array or scalar of numpy; None for others, a masked array too."""
    if isinstance(value, np.generic):
        return replicated_leaf(np.asarray(value), index, is_scalar=True)
    if type(value) in (np.ndarray, np.memmap):
        return replicated_leaf(np.asarray(value), index)
    return None


def replicated_leaf(
    array: Array, index: int, dtype: str = "", *, is_scalar: bool = False
) -> LeafValue:
    """The leaf of an array that every worker has; `dtype` names it when the array is raw."""
    name = dtype or name_of(array.dtype)
    elements, box = raw_view(array), whole_box(array.shape)

    def own(worker_id: int, worker_count: int) -> list[BoxView]:
        mine = share(box, range(worker_count), worker_id, index)
        return [(part, cut(elements, box, part)) for part in mine]

    return LeafValue(name, array.shape, own, is_scalar=is_scalar)


def expect(like: object, dtype: str) -> ExpectedLeaf | None:
    """Read into an array, or a scalar of numpy or Python, whichever `like` is; None for others."""
    if type(like) in _PYTHON:
        name = dtype if dtype.startswith(_PYTHON[type(like)]) else type(like).__name__
        return whole_array(name, (), is_scalar=True, kind=type(like))
    if isinstance(like, np.generic):
        return whole_array(name_of(like.dtype), (), is_scalar=True)
    if isinstance(like, np.ndarray):
        return whole_array(name_of(like.dtype), like.shape)
    return None


def whole_array(
    name: str, shape: tuple[int, ...], *, is_scalar: bool = False, kind: type | None = None
) -> ExpectedLeaf:
    """Read all of an array; as a scalar, or as a number of the Python type `kind`, when asked."""

    def finish(arrays: Sequence[Array]) -> object:
        array = arrays[0].view(numpy_dtype(name))
        scalar = array[()] if is_scalar else array
        return scalar if kind is None else kind(scalar)

    return ExpectedLeaf(name, shape, (whole_box(shape),), finish)
