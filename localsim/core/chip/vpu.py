"""The vector unit: elementwise functions and reductions, in float32."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localsim.core.numbers.numerics import F32, float32

_PARTS = 8
"""The sums of an eighth stay in the processor's cache."""
_KEPT = "?bBhHiIlLqQf"


def elementwise(function: Callable[..., NDArray[Any]], *arrays: NDArray[Any]) -> NDArray[Any]:
    """Return a function of arrays in memory of its own; all floats are float32."""
    # Overflow and 0/0 become infinities and NaNs without a word, as on the chip.
    with np.errstate(all="ignore"):
        given = [_narrowed(each) for each in arrays]
        values = _narrowed(np.asarray(function(*given)))
    is_given = any(np.may_share_memory(values, each) for each in given)
    return values.copy() if is_given else values


def reduce(kind: str, array: NDArray[Any], axis: int | Sequence[int] | None) -> F32:
    """The "sum", "max" or "mean" along axes (None: all of them), in float32; a NaN goes through.

    Sums are added as a tree: every machine and every memory layout gives the same bits, and the
    error grows with the logarithm of how much is added. Raises ValueError.
    """
    if kind not in _REDUCTIONS:
        raise ValueError(f"unknown reduction {kind!r}; one of: {', '.join(_REDUCTIONS)}")
    values = float32(array)
    with np.errstate(all="ignore"):
        for each in _last_first(values.ndim, axis):
            others = (other for other in range(values.ndim) if other != each)
            values = _REDUCTIONS[kind](values.transpose(each, *others))
    return values.copy() if np.may_share_memory(values, array) else values


def _sum(rows: F32) -> F32:
    """Of the rows: equal parts of them are added part to part, until one is left."""
    if len(rows) == 0:
        return np.zeros(rows.shape[1:], np.float32)
    while len(rows) > 1:
        length = -(-len(rows) // _PARTS)
        sums = rows[:length].copy(order="K")
        for start in range(length, len(rows), length):
            part = rows[start : start + length]
            sums[: len(part)] += part
        rows = sums
    total: F32 = rows[0]
    return total


def _max(rows: F32) -> F32:
    greatest: F32 = np.max(rows, axis=0)
    return greatest


def _mean(rows: F32) -> F32:
    return _sum(rows) / np.float32(len(rows))


_REDUCTIONS: Mapping[str, Callable[[F32], F32]] = MappingProxyType(
    {"sum": _sum, "max": _max, "mean": _mean}
)


def _last_first(dimensions: int, axis: int | Sequence[int] | None) -> Iterable[int]:
    """So that taking one away does not renumber the next."""
    if axis is None:
        return reversed(range(dimensions))
    axes = axis if isinstance(axis, Sequence) else [axis]
    if not all(-dimensions <= each < dimensions for each in axes):
        raise ValueError(f"an array of {dimensions} dimensions has no axis {axis}")
    found = sorted({each % dimensions for each in axes}, reverse=True)
    if len(found) < len(axes):
        raise ValueError(f"an axis is named twice: {axis}")
    return found


def _narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Integers and truth values stay what they are, and float32."""
    return values if values.dtype.char in _KEPT else float32(values)
