"""Arguments of operations: Buffers that the chip holds, and ndarrays that come for one alone."""

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localsim.core.chip.buffers import Buffer
from localsim.core.numbers.formats import format_of

Array = NDArray[Any] | Buffer

_WORD_BYTES = 4
"""The most that an element has on a chip."""

_GIVEN = ("bf16", "int8", "e4m3", "e5m2")
"""What ndarrays can be to a matmul."""


class Operand(NamedTuple):
    """Values in the format `dtype`; bytes that an operation reads from HBM, and that it adds."""

    values: NDArray[Any]
    dtype: str
    read_bytes: int
    added_bytes: int


def matmul_operand(array: Array, dtype: str) -> Operand:
    """Return a Buffer as it is, an ndarray as `dtype`, in HBM for this operation alone.

    Raises TypeError for what is neither, ValueError for an unknown dtype.
    """
    if dtype not in _GIVEN:
        raise ValueError(f"unknown dtype {dtype!r}; one of: {', '.join(_GIVEN)}")
    if isinstance(array, Buffer):
        return Operand(array.values, array.dtype, array.hbm_bytes, 0)
    if not isinstance(array, np.ndarray):
        raise TypeError(f"an ndarray or a Buffer is expected, not {type(array).__name__}")
    size_bytes = array.size * format_of(dtype).element_bytes
    # Rounded by the matrix unit here, on the chip before it is there.
    return Operand(array, "f32" if dtype == "bf16" else dtype, size_bytes, size_bytes)


def vector_operand(array: Array) -> Operand:
    """Return the numbers of a Buffer or ndarray, in HBM for this operation alone."""
    numbers = np.asarray(array)
    if isinstance(array, Buffer):
        return Operand(numbers, array.dtype, array.hbm_bytes, 0)
    size_bytes = packed_bytes(numbers)
    return Operand(numbers, "f32", size_bytes, size_bytes)


def require_buffer(held: Buffer) -> Buffer:
    """Return the Buffer; raises TypeError for anything else."""
    if not isinstance(held, Buffer):
        raise TypeError(f"a Buffer is expected (of Chip.put), not {type(held).__name__}")
    return held


def packed_bytes(array: Array) -> int:
    """Return the bytes of an array's elements on a chip, tiles not filled up."""
    if isinstance(array, Buffer):
        return array.packed_bytes
    return array.size * min(array.itemsize, _WORD_BYTES)


@lru_cache(4096)
def product_shape(
    left: tuple[int, ...], right: tuple[int, ...]
) -> tuple[tuple[int, int, int, int], tuple[int, ...]]:
    """Return (batch, m, k, n) and the shape of the product; raises ValueError."""
    if min(len(left), len(right)) < 2 or left[-1] != right[-2]:
        raise ValueError(f"shapes do not multiply (mismatch): {left} x {right}")
    outer = np.broadcast_shapes(left[:-2], right[:-2])
    m, k, n = left[-2], left[-1], right[-1]
    # With one matrix on the right for all, the batches are rows.
    batch, rows = (1, prod(outer) * m) if len(right) == 2 else (prod(outer), m)
    return (batch, rows, k, n), (*outer, m, n)
