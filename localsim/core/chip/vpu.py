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
    """Return a function of arrays in memory of its own; all floats are float32.

    The function can read its arrays but not write them, as on the chip: numpy raises ValueError.
    """
    # Overflow and 0/0 become infinities and NaNs without a word, as on the chip.
    with np.errstate(all="ignore"):
        given = [_read_only(_narrowed(each)) for each in arrays]
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
        for reduced in _last_first(values.ndim, axis):
            others = (other for other in range(values.ndim) if other != reduced)
            values = _REDUCTIONS[kind](values.transpose(reduced, *others))
    return values.copy() if np.may_share_memory(values, array) else values


def _sum(rows: F32) -> F32:
    """The sum of the rows: equal parts of them are added part to part, until one is left."""
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


_REDUCTIONS: Mapping[str, Callable[[F32], F32]] = MappingProxyType(
    {
        "sum": _sum,
        "max": lambda rows: np.asarray(np.max(rows, axis=0)),
        "mean": lambda rows: _sum(rows) / np.float32(len(rows)),
    }
)


def _last_first(dimensions: int, axis: int | Sequence[int] | None) -> Iterable[int]:
    """The axes from the last to the first: taking one away does not renumber the next.

    Raises ValueError.
    """
    if axis is None:
        return reversed(range(dimensions))
    axes = axis if isinstance(axis, Sequence) else [axis]
    if not all(-dimensions <= each < dimensions for each in axes):
        raise ValueError(f"an array of {dimensions} dimensions has no axis {axis}")
    falling = sorted({each % dimensions for each in axes}, reverse=True)
    if len(falling) < len(axes):
        raise ValueError(f"an axis is named twice: {axis}")
    return falling


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    view = values.view()
    view.flags.writeable = False
    return view


def _narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """The values as they are for integers, truth values and float32, else as float32."""
    return values if values.dtype.char in _KEPT else float32(values)
