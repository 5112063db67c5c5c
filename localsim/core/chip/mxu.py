"""The matrix unit: narrow operands, exact products, wide sums.

bf16  float32 and float16 operands are rounded to bfloat16; products exact, sums in float32
fp8   codes of one byte (e4m3, e5m2, also mixed); products exact, sums in float32
int8  products and sums exact, in int32, which wraps around as on the chip

With precision "high" or "highest", float32 and float16 operands are cut into two or three
bfloat16 parts instead, as XLA does; PASSES are the products of parts that it then makes.

The float32 sums of random operands, positive ones and x @ x.T included, are within 3e-7 of the
exact ones (Frobenius, relative; K up to 65,536). Where all products are a few numbers of one sign,
every addition may be rounded in the same direction: 2e-6 was measured. "high" leaves out up to
8e-6 of random operands; of "highest" every addition is rounded, and sums are within 5e-7.

The order of sums is that of this machine's BLAS, which is not a systolic array's. It depends on the
operands' shapes and layout, on whether their sums grow steadily, and on the number of threads: with
the same of these a product has the same bits.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
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
_SHORT_BLOCKS, _BLOCKS = (4096, 128), (8192,)
"""So many products are added at a time, and of these sums again: past that they drift beyond 3e-7.

BLAS adds up to 384 products one after the other, or all of them for vectors and small matrices.
"""
_PROBED_ROWS, _PROBED_K = 16, 256
"""How much of the operands is looked at to see whether sums grow steadily."""
_STEADY = 0.9
"""They do from this cosine of a row and a column on; random positive ones have 0.6 to 0.8."""
PASSES: Mapping[str, int] = MappingProxyType({"default": 1, "high": 3, "highest": 6})
"""The products of bfloat16 parts that make one of float32, by XLA's name of the precision."""
_SMALL_PRODUCTS = 1 << 20
"""m x k x n up to which a BLAS has ways of its own for small matrices."""
_KEPT_BYTES = 64 << 20
"""Of scratch for one operand, by thread: what one of 4096 x 4096 takes."""


def matmul(
    left: NDArray[Any],
    right: NDArray[Any],
    *,
    formats: tuple[str, str] = ("f32", "f32"),
    precision: str = "default",
) -> NDArray[Any]:
    """[..., m, k] x [..., k, n] -> float32, or int32 of int8; leading axes as numpy.matmul has it.

    `formats` says what each operand holds: f32 or f16 (rounded here, unless `precision` is above
    "default"), bf16 (rounded before), e4m3, e5m2 or int8. Raises ValueError for shapes, formats or
    types that do not go together, and for an unknown precision.
    """
    if min(left.ndim, right.ndim) < 2 or left.shape[-1] != right.shape[-2]:
        raise ValueError(f"mismatch of the shapes of a product: {left.shape} x {right.shape}")
    units = {format_of(each).unit for each in formats}
    if len(units) != 1 or None in units:
        raise ValueError(f"the matrix unit does not multiply {formats[0]} by {formats[1]}")
    if precision not in PASSES:
        raise ValueError(f"unknown precision {precision!r}; one of: {', '.join(PASSES)}")
    operands = [_READ[form](each) for each, form in zip((left, right), formats, strict=True)]
    # Infinities and NaNs pass through the unit without a word.
    with np.errstate(all="ignore"):
        if precision == "highest" and is_cut(formats):
            # Six passes leave out less than float32 rounds: one product of float32 is as exact.
            return _one_pass(operands, tuple("bf16" if is_wide(form) else form for form in formats))
        if precision == "high" and is_cut(formats):
            return _three_passes(operands, formats)
        if backends.backend_of(left.shape, right.shape) == "jax":
            return jax_matmul.matmul(*operands)
        return _one_pass(operands, formats)


def is_cut(formats: Iterable[str]) -> bool:
    """Whether a precision above "default" makes a difference to a product of these formats."""
    return any(map(is_wide, formats))


def is_wide(form: str) -> bool:
    """Whether a format has more bits than the matrix unit takes."""
    return form in ("f32", "f16")


def _three_passes(operands: Sequence[NDArray[Any]], formats: Sequence[str]) -> NDArray[Any]:
    """x = high + low: high x low and low x high are added to high x high; low x low is left out."""
    (left, left_rest), (right, right_rest) = (
        _halves(each, form) for each, form in zip(operands, formats, strict=True)
    )
    narrow = ("bf16", "bf16")
    rest = matmul(left, right_rest, formats=narrow)
    rest += matmul(left_rest, right, formats=narrow)
    total = matmul(left, right, formats=narrow)
    # An infinity times no rest is a NaN, which is none of the product's.
    np.add(total, rest, out=total, where=np.isfinite(total))
    return total


def _halves(values: F32, form: str) -> tuple[F32, F32]:
    """What bfloat16 has of the values, and what it has of the rest; no rest of an infinity."""
    if not is_wide(form):
        return values, np.zeros_like(values)
    high = bfloat16(values)
    rest = np.where(np.isfinite(high), values - high, np.float32(0))
    return high, bfloat16(rest, out=rest)


def _one_pass(operands: Sequence[NDArray[Any]], formats: Sequence[str]) -> NDArray[Any]:
    wide = [
        _widened(each, form, side)
        for side, (each, form) in enumerate(zip(operands, formats, strict=True))
    ]
    if operands[0].dtype == np.int8:
        return _product(*wide, blocks=(_EXACT_K,), kind=np.int32)
    return _product(*wide, blocks=_blocks(*wide), kind=np.float32)


def _product(
    left: F32, right: F32, *, blocks: tuple[int, ...], kind: type[np.generic]
) -> NDArray[Any]:
    """The product, cut along K into `blocks`, these into smaller ones; their sums are of `kind`."""
    if not blocks:
        product: NDArray[Any] = np.matmul(left, right).astype(kind, copy=False)
        return product
    size, *smaller = blocks
    total = _product(left[..., :size], right[..., :size, :], blocks=(*smaller,), kind=kind)
    for start in range(size, left.shape[-1], size):
        block = slice(start, start + size)
        total += _product(left[..., block], right[..., block, :], blocks=(*smaller,), kind=kind)
    return total


def _blocks(left: F32, right: F32) -> tuple[int, ...]:
    """How many products BLAS may add, and how many of the sums are added at a time.

    BLAS takes blocks itself, but not of vectors and small matrices. Short blocks take up to twice
    as long: only those products have them that need them.
    """
    *_, rows, k = left.shape
    columns = right.shape[-1]
    is_chain = min(rows, columns) == 1 or rows * k * columns <= _SMALL_PRODUCTS
    return _SHORT_BLOCKS if is_chain or _grows_steadily(left, right) else _BLOCKS


def _grows_steadily(left: F32, right: F32) -> bool:
    """Whether a row points nearly where the column of its number does, as in x @ x.T.

    The low bits of squares are not distributed evenly (an odd square is 1 modulo 8): as their sum
    grows, most additions are rounded in one direction, while the errors of other products cancel.
    The first rows and columns, of the first matrices of a batch, stand for all.
    """
    if not left.size or not right.size:
        return False
    rows = min(_PROBED_ROWS, left.shape[-2], right.shape[-1])
    a = left[(0,) * (left.ndim - 2)][:rows, :_PROBED_K]
    b = right[(0,) * (right.ndim - 2)][:_PROBED_K, :rows].T
    together, ours, theirs = ((one * other).sum(axis=1) for one, other in ((a, b), (a, a), (b, b)))
    return bool((together > _STEADY * np.sqrt(ours * theirs)).any())


def _widened(values: NDArray[Any], form: str, side: int) -> F32:
    """As float32 that BLAS takes, rounded to bfloat16 where it is not."""
    if is_wide(form):
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
        "f16": float32,
        "bf16": partial(_exactly, np.float32),
        "e4m3": partial(decode_fp8, form="e4m3"),
        "e5m2": partial(decode_fp8, form="e5m2"),
        "int8": partial(_exactly, np.int8),
    }
)
