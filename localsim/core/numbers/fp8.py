"""The two 8-bit floating-point formats, as codes of one byte each.

e4m3  4 bits of exponent, 3 of mantissa, up to 448, no infinities (e4m3fn)
e5m2  5 bits of exponent, 2 of mantissa, up to 57,344, infinities as in IEEE 754
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localsim.core.numbers.numerics import F32, float32

Codes = NDArray[np.uint8]

_SIGN = 0x80
_BLOCK = 1 << 16
"""So many codes are decoded at a time: numpy makes an index of eight bytes of each first."""


@dataclass(frozen=True, slots=True)
class Fp8Format:
    """An 8-bit format; `overflow` is the code after that of the greatest number."""

    mantissa_bits: int
    bias: int
    overflow: int
    nan: int

    @property
    def greatest(self) -> float:
        """The greatest finite number of the format."""
        return self.magnitude(self.overflow - 1)

    def magnitude(self, code: int) -> float:
        """The number of a code without its sign; for `overflow`, the one past the greatest."""
        exponent, mantissa = divmod(code, 1 << self.mantissa_bits)
        if exponent == 0:
            exponent = 1  # subnormal: no hidden bit
        else:
            mantissa += 1 << self.mantissa_bits
        return float(mantissa * 2.0 ** (exponent - self.bias - self.mantissa_bits))


FP8_FORMATS: Mapping[str, Fp8Format] = MappingProxyType(
    {
        "e4m3": Fp8Format(mantissa_bits=3, bias=7, overflow=0x7F, nan=0x7F),
        "e5m2": Fp8Format(mantissa_bits=2, bias=15, overflow=0x7C, nan=0x7E),
    }
)


def encode_fp8(values: Any, form: str) -> Codes:
    """Round to nearest, ties to even, subnormals included; what is not float32 becomes that first.

    Half a step past the greatest number an e5m2 is an infinity and an e4m3, which has none, a NaN.
    Raises ValueError for what is not a real number, and for an unknown format.
    """
    bits = float32(values).view(np.uint32)
    # A lost bit is kept as the lowest one: no second rounding can mistake it for a tie.
    halves = (bits >> 16 | ((bits & 0xFFFF) != 0)).astype(np.uint16)
    return np.asarray(_encoded(form)[halves])


def decode_fp8(codes: Any, form: str) -> F32:
    """The numbers of codes, exactly: each of them is a bfloat16 too.

    Raises ValueError for what is not uint8, and for an unknown format.
    """
    codes = np.asarray(codes)
    if codes.dtype != np.uint8:
        raise ValueError(f"codes of {form} are uint8, not {codes.dtype}")
    numbers = np.empty_like(codes, np.float32, subok=False)
    source, target, table = codes.ravel("K"), numbers.ravel("K"), _decoded(form)
    for start in range(0, source.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        # There is a number for every code: nothing is clipped, and nothing checked.
        np.take(table, source[block], out=target[block], mode="clip")
    return numbers


def _known(form: str) -> Fp8Format:
    try:
        return FP8_FORMATS[form]
    except KeyError:
        raise ValueError(f"no 8-bit format {form!r}: {', '.join(FP8_FORMATS)}") from None


@cache
def _decoded(form: str) -> F32:
    """The numbers of all codes of a format, by code."""
    known = _known(form)
    positive = np.array([known.magnitude(code) for code in range(_SIGN)], np.float32)
    if known.overflow != known.nan:
        positive[known.overflow] = np.inf
        positive[known.overflow + 1 :] = np.nan
    positive[known.nan] = np.nan
    return np.concatenate([positive, -positive])


@cache
def _encoded(form: str) -> Codes:
    """The codes of a format for all float32 numbers, by the upper half of their bits."""
    known = _known(form)
    ladder = np.array([known.magnitude(code) for code in range(known.overflow + 1)])
    borders = (ladder[:-1] + ladder[1:]) / 2
    values = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    is_nan = np.isnan(values)
    magnitude = np.abs(np.where(is_nan, 0, values))
    code = np.searchsorted(borders, magnitude)
    tie = np.append(borders, np.nan)[code] == magnitude
    code += tie & (code % 2 == 1)
    code[is_nan] = known.nan
    return (code | np.where(np.signbit(values), _SIGN, 0)).astype(np.uint8)
