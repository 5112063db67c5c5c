"""Arguments of operations: Buffers that the chip holds, and ndarrays that come for one alone."""

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from localsim.core.chip.buffers import Buffer
from localsim.core.numbers.formats import format_of


class HasArray(Protocol):
    """An array of any library, as numpy reads it: a JAX array on the processor, for one."""

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray[Any]:
        """Return the numbers as an ndarray."""


Array: TypeAlias = NDArray[Any] | Buffer | HasArray

_WORD_BYTES = 4
"""The most that an element has on a chip."""

_GIVEN = ("bf16", "f32", "f16", "int8", "e4m3", "e5m2")
"""What arrays other than Buffers can be to a matmul."""

_REAL_RESULTS = ("f32", "bf16", "f16", "e4m3", "e5m2")
_WHOLE_RESULTS = ("int32", "int8")
"""What a product can be, the unit's own sums first."""


class Operand(NamedTuple):
    """Values in the format `dtype`; bytes that an operation reads from HBM, and that it adds."""

    values: NDArray[Any]
    dtype: str
    read_bytes: int
    added_bytes: int


def matmul_operand(array: Array, dtype: str, precision: str) -> Operand:
    """Return a Buffer as it is, any other array as `dtype`, in HBM for this operation alone.

    Raises TypeError for what is neither, ValueError for an unknown dtype.
    """
    if dtype not in _GIVEN:
        raise ValueError(f"unknown dtype {dtype!r}; one of: {', '.join(_GIVEN)}")
    if isinstance(array, Buffer):
        return Operand(array.values, array.dtype, array.hbm_bytes, 0)
    if not hasattr(array, "__array__"):
        raise TypeError(f"an array or a Buffer is expected, not {type(array).__name__}")
    values = np.asarray(array)
    size_bytes = values.size * format_of(dtype).element_bytes
    if dtype == "bf16" and precision == "default":
        # Rounded by the matrix unit here, on the chip before it is there.
        return Operand(values, "f32", size_bytes, size_bytes)
    is_read_there = dtype in ("f32", "e4m3", "e5m2")
    held = values if is_read_there else format_of(dtype).take(values)
    return Operand(held, dtype, size_bytes, size_bytes)


def vector_operand(array: Array) -> Operand:
    """Return the numbers of a Buffer or any array, in HBM for this operation alone."""
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


def packed_bytes(array: NDArray[Any] | Buffer) -> int:
    """Return the bytes of an array's elements on a chip, tiles not filled up."""
    if isinstance(array, Buffer):
        return array.packed_bytes
    return array.size * min(array.itemsize, _WORD_BYTES)


def product_dtype(operand_dtype: str, asked: str | None) -> str:
    """Return the dtype of a product of operands of a dtype, by default the unit's own.

    Raises ValueError for what a product cannot be asked for.
    """
    possible = _WHOLE_RESULTS if operand_dtype == "int8" else _REAL_RESULTS
    if asked is not None and asked not in possible:
        raise ValueError(
            f"a product of {operand_dtype} cannot be {asked!r}; one of: {', '.join(possible)}"
        )
    return asked or possible[0]


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
