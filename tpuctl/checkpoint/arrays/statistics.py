"""The norm of an array and its numbers of NaN and Inf, from its bytes as they are stored."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpuctl.checkpoint.arrays.dtypes import DTYPES, Array, raw_dtype, unpack

_ELEMENTS = 16 * 1024
"""So many are looked at at once: as float64 they still fit into a processor's cache."""
_SAFE = 1e150
"""Squares of what lies between it and its inverse neither overflow nor vanish."""


class ArrayStatistics:
    """Norm, NaN and Inf of the elements that were added so far."""

    def __init__(self, dtype: str) -> None:
        """Nothing is added yet; `dtype` is a name in dtypes.DTYPES."""
        self.nan = 0
        self.inf = 0
        self._dtype = dtype
        self._norm = 0.0
        self._rest = b""

    @property
    def norm(self) -> float | None:
        """The L2 norm of the finite elements; None for bool, and where float64 overflows."""
        return self._norm if self._dtype != "bool" and math.isfinite(self._norm) else None

    def add(self, data: bytes | memoryview) -> None:
        """Add the bytes that follow; they may end inside an element."""
        # A NaN that signals warns when it is converted.
        with np.errstate(all="ignore"):
            self._add(data)

    def _add(self, data: bytes | memoryview) -> None:
        for values in self._values(data):
            finite = np.isfinite(values)
            if not finite.all():
                self.nan += int(np.isnan(values).sum())
                self.inf += int(np.isinf(values).sum())
                values = values[finite]  # noqa: PLW2901 (the others count no further)
            wide = np.complex128 if values.dtype.kind == "c" else np.float64
            self._norm = math.hypot(self._norm, _norm(np.abs(values.astype(wide))))

    def join(self, other: ArrayStatistics) -> None:
        """Add the elements of another piece of the same array."""
        self.nan += other.nan
        self.inf += other.inf
        self._norm = math.hypot(self._norm, other._norm)

    def _values(self, data: bytes | memoryview) -> Iterator[Array]:
        for piece in self._whole_elements(data):
            raw = np.frombuffer(piece, raw_dtype(self._dtype))
            if DTYPES[self._dtype].bits < 8:
                raw = unpack(raw, 2 * raw.size)
            yield as_float(self._dtype, raw)

    def _whole_elements(self, data: bytes | memoryview) -> Iterator[bytes | memoryview]:
        width = max(1, DTYPES[self._dtype].bits // 8)
        missing = -len(self._rest) % width
        if missing:
            self._rest += bytes(data[:missing])
            data = data[missing:]
            if len(self._rest) < width:
                return
            yield self._rest
        end = len(data) - len(data) % width
        for start in range(0, end, _ELEMENTS * width):
            yield data[start : min(end, start + _ELEMENTS * width)]
        self._rest = bytes(data[end:])


def measure(dtype: str, blocks: Iterable[bytes | memoryview]) -> ArrayStatistics:
    """The statistics of an array whose bytes come in blocks, which may end inside an element."""
    found = ArrayStatistics(dtype)
    for block in blocks:
        found.add(block)
    return found


def _norm(sizes: Array) -> float:
    greatest = float(sizes.max(initial=0.0))
    if not greatest or 1 / _SAFE < greatest < _SAFE:
        # Not np.dot: its threads wait for one another in a loop, beside those that read.
        return math.sqrt(float(np.square(sizes).sum()))
    return greatest * _norm(sizes / greatest)


@dataclass(frozen=True)
class _Float8:
    """Bits of its fraction, what is taken off its exponent, and how it spells infinity and NaN."""

    fraction_bits: int
    bias: int
    special: str
    """`ieee`: infinities and NaNs at the greatest exponent; `nan`: only NaN, all bits set;
    `unsigned_zero`: only NaN, in the place of the negative zero."""


_FLOAT8 = {
    "float8_e3m4": _Float8(4, 3, "ieee"),
    "float8_e4m3": _Float8(3, 7, "ieee"),
    "float8_e5m2": _Float8(2, 15, "ieee"),
    "float8_e4m3fn": _Float8(3, 7, "nan"),
    "float8_e4m3fnuz": _Float8(3, 8, "unsigned_zero"),
    "float8_e5m2fnuz": _Float8(2, 16, "unsigned_zero"),
    "float8_e4m3b11fnuz": _Float8(3, 11, "unsigned_zero"),
}


def as_float(name: str, array: Array) -> Array:
    """The values of an array that has the dtype `dtypes.raw_dtype`, as floats, exactly.

    The result is float32 for dtypes of 16 bits and fewer, the same for complex numbers, and float64
    otherwise, to which integers of 64 bits are rounded.
    """
    if name == "complex64":
        return array
    if name == "bfloat16":
        # The upper half of a float32.
        return (array.astype(np.uint32) << 16).view(np.float32)
    if raw_dtype(name).itemsize == 1 and name not in ("bool", "int8", "uint8"):
        return _values(name)[array]
    return array.astype(np.float32 if array.dtype.itemsize <= 2 else np.float64, copy=False)


@functools.lru_cache
def _values(name: str) -> NDArray[np.float32]:
    """What each of the 256 bytes stands for."""
    bits = np.arange(256)
    if name in ("int4", "uint4"):
        low = bits & 15
        return np.where((low > 7) & (name == "int4"), low - 16, low).astype(np.float32)
    if name == "float8_e8m0fnu":
        return np.where(bits == 255, np.nan, np.exp2(bits - 127.0)).astype(np.float32)
    return _float8(_FLOAT8[name], bits)


def _float8(kind: _Float8, bits: NDArray[np.int64]) -> NDArray[np.float32]:
    exponent = (bits & 127) >> kind.fraction_bits
    fraction = (bits & ((1 << kind.fraction_bits) - 1)) / (1 << kind.fraction_bits)
    # The least exponent is that of numbers without the leading one.
    size = np.exp2(np.maximum(exponent, 1) - kind.bias) * (fraction + (exponent > 0))
    values: NDArray[np.float64] = np.where(bits < 128, size, -size)
    if kind.special == "ieee":
        greatest = exponent == exponent.max()
        values[greatest & (fraction > 0)] = np.nan
        values[greatest & (fraction == 0)] *= np.inf
    elif kind.special == "nan":
        values[(bits & 127) == 127] = np.nan
    else:
        values[bits == 128] = np.nan
    return values.astype(np.float32)
