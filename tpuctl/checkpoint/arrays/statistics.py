"""The norm of an array and its numbers of NaN and Inf, from its bytes as they are stored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from tpuctl.checkpoint.arrays.dtypes import DTYPES, Array, raw_dtype, unpack
from tpuctl.checkpoint.arrays.floats import as_float

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
