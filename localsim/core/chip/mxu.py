"""The matrix unit: narrow operands, exact products, wide sums.

bf16  float32 operands are rounded to bfloat16; products exact, sums in float32
fp8   codes of one byte (e4m3, e5m2, also mixed); products exact, sums in float32
int8  products and sums exact, in int32, which wraps around as on the chip

The float32 sums are within 3e-7 of the exact ones (Frobenius, relative; K up to 65,536), in the
order of this machine's BLAS, which is not a systolic array's. It depends on the operands' shapes
and layout and on the number of threads: with the same of these a product has the same bits.
"""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localsim.core.chip import backends, jax_matmul
from localsim.core.numbers.formats import format_of
from localsim.core.numbers.fp8 import decode_fp8
from localsim.core.numbers.numerics import F32, bfloat16, float32

_EXACT_K = 1024
"""So many products of two int8 add up to 2**24 at most, and float32 has every integer up to it."""
_CHAIN_K, _BLOCKS_K = 512, 8192
"""So many products added one after the other, or by blocks: past that sums drift beyond 3e-7."""
_SMALL_PRODUCTS = 1 << 20
"""m x k x n up to which a BLAS has ways of its own for small matrices."""
_KEPT_BYTES = 64 << 20
"""Of scratch for one operand, by thread: what one of 4096 x 4096 takes."""


def matmul(
    left: NDArray[Any], right: NDArray[Any], *, formats: tuple[str, str] = ("f32", "f32")
) -> NDArray[Any]:
    """[..., m, k] x [..., k, n] -> float32, or int32 of int8; leading axes as numpy.matmul has it.

    `formats` says what each operand holds: f32 (rounded here), bf16 (rounded before), e4m3, e5m2 or
    int8. Raises ValueError for shapes, formats or types that do not go together.
    """
    if min(left.ndim, right.ndim) < 2 or left.shape[-1] != right.shape[-2]:
        raise ValueError(f"mismatch of the shapes of a product: {left.shape} x {right.shape}")
    units = {format_of(each).unit for each in formats}
    if len(units) != 1 or None in units:
        raise ValueError(f"the matrix unit does not multiply {formats[0]} by {formats[1]}")
    operands = [_READ[form](each) for each, form in zip((left, right), formats, strict=True)]
    # Infinities and NaNs pass through the unit without a word.
    with np.errstate(all="ignore"):
        if backends.backend_of(left.shape, right.shape) == "jax":
            return jax_matmul.matmul(*operands)
        wide = [
            _widened(each, form, side)
            for side, (each, form) in enumerate(zip(operands, formats, strict=True))
        ]
        if units == {"int8"}:
            return _product(*wide, summed_k=_EXACT_K, kind=np.int32)
        return _product(*wide, summed_k=_summed_k(*wide), kind=np.float32)


def _product(left: F32, right: F32, *, summed_k: int, kind: type[np.generic]) -> NDArray[Any]:
    """As many products as `summed_k` at a time are added by BLAS, and these sums as `kind`."""
    total: NDArray[Any]
    total = np.matmul(left[..., :summed_k], right[..., :summed_k, :]).astype(kind, copy=False)
    for start in range(summed_k, left.shape[-1], summed_k):
        block = slice(start, start + summed_k)
        total += np.matmul(left[..., block], right[..., block, :]).astype(kind, copy=False)
    return total


def _summed_k(left: F32, right: F32) -> int:
    """How many BLAS may add: it takes blocks itself, but not of vectors and small matrices."""
    *_, rows, k = left.shape
    columns = right.shape[-1]
    is_chain = min(rows, columns) == 1 or rows * k * columns <= _SMALL_PRODUCTS
    return _CHAIN_K if is_chain else _BLOCKS_K


def _widened(values: NDArray[Any], form: str, side: int) -> F32:
    """As float32 that BLAS takes, rounded to bfloat16 where it is not."""
    if form == "f32":
        return bfloat16(values, out=_scratch(values, side))
    if values.dtype == np.float32 and _is_for_blas(values):
        return values
    wide = _scratch(values, side)
    np.copyto(wide, values)
    return wide


def _is_for_blas(values: F32) -> bool:
    """Whether rows or columns lie dense; numpy would multiply anything else in a plain loop."""
    *_, rows, columns = values.shape
    *_, by_row, by_column = values.strides
    word = values.itemsize
    is_by_row = by_column == word and by_row >= columns * word
    return is_by_row or (by_row == word and by_column >= rows * word)


class _Scratch(threading.local):
    """Memory for both operands, by thread; page faults of fresh memory cost more than rounding."""

    def __init__(self) -> None:
        self.sides = [np.empty(0, np.float32), np.empty(0, np.float32)]


_SCRATCH = _Scratch()


def _scratch(values: NDArray[Any], side: int) -> F32:
    """Memory for one operand, in its layout, until the next product."""
    size = prod(values.shape)
    flat = _SCRATCH.sides[side]
    if flat.size < size:
        flat = np.empty(size, np.float32)
        if flat.nbytes <= _KEPT_BYTES:
            _SCRATCH.sides[side] = flat
    *batch, rows, columns = values.shape
    if abs(values.strides[-2]) < abs(values.strides[-1]):  # transposed: BLAS takes it as it is
        return flat[:size].reshape(*batch, columns, rows).swapaxes(-1, -2)
    return flat[:size].reshape(values.shape)


def _exactly(kind: type[np.generic], values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype != kind:
        raise ValueError(f"{np.dtype(kind)} operands are expected, not {values.dtype}")
    return values


_READ: Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]] = MappingProxyType(
    {
        "f32": float32,
        "bf16": partial(_exactly, np.float32),
        "e4m3": partial(decode_fp8, form="e4m3"),
        "e5m2": partial(decode_fp8, form="e5m2"),
        "int8": partial(_exactly, np.int8),
    }
)
