"""The values of small floating-point formats, without ml_dtypes."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpuctl.checkpoint.arrays.dtypes import Array, raw_dtype


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
