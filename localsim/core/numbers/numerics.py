"""bfloat16, as float32 arrays that hold no other values: the low 16 bits of each are clear.

float16 and float32 are numpy's own.
"""

import threading
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]

_KEPT = np.uint32(0xFFFF0000)
_HALF, _LOWEST, _HALF_LESS_ONE = np.uint32(16), np.uint32(1), np.uint32(0x7FFF)
_QUIET = np.uint32(0x00400000)
_BLOCK = 1 << 17
"""So many values are rounded at a time: the second pass finds them in the processor's cache."""


def float32(values: Any) -> F32:
    """The values as float32, rounded to nearest; raises ValueError for what is not a number."""
    if type(values) is np.ndarray and values.dtype == np.float32:
        return values
    array = np.asarray(values)
    if not np.can_cast(array.dtype, np.float32, "same_kind"):
        raise ValueError(f"{array.dtype} is not a type of real numbers")
    # What is too great becomes an infinity, as on the chip.
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def float16(values: Any) -> NDArray[np.float16]:
    """The values as IEEE half precision, rounded to nearest, ties to even.

    What is not float32 or float16 is rounded to float32 first; raises ValueError for what is not a
    real number.
    """
    array = np.asarray(values)
    if array.dtype == np.float16:
        return array
    # What is past 65,504 becomes an infinity, as on the chip.
    with np.errstate(over="ignore", under="ignore"):
        return float32(array).astype(np.float16)


def bfloat16(values: Any, out: F32 | None = None) -> F32:
    """Round to bfloat16, to nearest, ties to even; infinities and subnormals alike.

    A NaN stays one of its sign. What is not float32 is rounded to that first, and ValueError raised
    for what is not a real number. The result has the shape and the layout of `values`, or is `out`,
    which may be `values` itself.
    """
    exact = float32(values)
    rounded = np.empty_like(exact) if out is None else out
    target = rounded.ravel("K")
    if out is not None and not np.may_share_memory(target, out):
        out[...] = bfloat16(exact)  # it is not dense
        return out
    if exact.strides != rounded.strides or exact.shape != rounded.shape:
        np.copyto(rounded, exact)
        exact = rounded
    source = exact.ravel("K")
    is_in_place = np.may_share_memory(source, target)
    for start in range(0, source.size, _BLOCK):
        block = source[start : start + _BLOCK]
        _round(_copy(block) if is_in_place else block, target[start : start + _BLOCK])
    return rounded


def _round(exact: F32, rounded: F32) -> None:
    """Round a dense block of float32 to bfloat16 into another dense block of its size."""
    bits, result = exact.view(np.uint32), rounded.view(np.uint32)
    # A carry out of the dropped half rounds up; the lowest kept bit breaks the tie.
    np.right_shift(bits, _HALF, out=result)
    # A carry would turn some NaNs into infinities or zeros. A maximum passes a NaN on.
    nans = np.isnan(exact) if isnan(np.maximum.reduce(exact)) else None
    result &= _LOWEST
    result += _HALF_LESS_ONE
    result += bits
    if nans is not None:
        np.bitwise_or(bits, _QUIET, out=result, where=nans)
    result &= _KEPT


class _Spare(threading.local):
    """Memory for one block in each thread: page faults of fresh memory cost as much as the work."""

    def __init__(self) -> None:
        self.values = np.empty(_BLOCK, np.float32)


_SPARE = _Spare()


def _copy(block: F32) -> F32:
    """A copy of a block in the thread's spare memory, good until the next call."""
    copy = _SPARE.values[: block.size]
    np.copyto(copy, block)
    return copy
