"""An array in a memory of the chip, in one of the chip's number formats."""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localsim.core.chip.memory import Allocation, Memory
from localsim.core.numbers.formats import FORMATS, ArrayType, format_of
from localsim.core.numbers.fp8 import decode_fp8

LANES = 128
_SUBLANE_BYTES = 32
"""A tile of VMEM: 128 lanes of 32 bytes, as 8 sublanes of 4 bytes or 16 of 2 or 32 of 1."""


class Buffer:
    """An array that a chip holds; its memory is free again when the last Buffer on it is dropped.

    `values` cannot be written: float32 for f32, float32 with clear low bits for bf16 (they are
    never rounded again), float16 for f16, int8, int32, bool for pred, uint8 codes for e4m3, e5m2.
    """

    __slots__ = ("_allocation", "dtype", "values")

    def __init__(self, values: NDArray[Any], dtype: str, allocation: Allocation) -> None:
        """Values that hold `dtype` already; Chip.put makes them."""
        values.flags.writeable = False
        self.values = values
        self.dtype = dtype
        self._allocation = allocation

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.values.shape

    @property
    def memory(self) -> Memory:
        """The memory that holds it."""
        return self._allocation.memory

    @property
    def size_bytes(self) -> int:
        """The bytes it takes of that memory, tiles filled up."""
        return self._allocation.size_bytes

    @property
    def packed_bytes(self) -> int:
        """Its elements alone, without what fills up tiles."""
        return self.values.size * FORMATS[self.dtype].element_bytes

    @property
    def hbm_bytes(self) -> int:
        """What an operation reads of it from HBM: nothing while it is in VMEM."""
        return 0 if self.memory.is_tiled else self.packed_bytes

    @property
    def T(self) -> "Buffer":  # noqa: N802 -- numpy's name
        """The same memory, read with its axes reversed."""
        return Buffer(self.values.T, self.dtype, self._allocation)

    def __array__(
        self,
        dtype: Any = None,
        copy: bool | None = None,  # noqa: FBT001 -- numpy's signature
    ) -> NDArray[Any]:
        """The numbers it holds, codes decoded: numpy.asarray(buffer)."""
        is_coded = self.values.dtype == np.uint8
        numbers = decode_fp8(self.values, self.dtype) if is_coded else self.values
        return numbers.astype(dtype or numbers.dtype, copy=bool(copy))

    def __repr__(self) -> str:
        return f"<{ArrayType(self.dtype, self.shape)} in {self.memory.name}>"


def hold_values(values: NDArray[Any], dtype: str, memory: Memory) -> Buffer:
    """Return a Buffer of a copy of the values; raises MemoryFullError, ValueError."""
    held = format_of(dtype).take(values)
    own = held.copy("K") if held is values else held
    return Buffer(own, dtype, _allocate(own.shape, dtype, memory))


def copy_buffer(buffer: Buffer, memory: Memory) -> Buffer:
    """Return a Buffer of the same values in another memory; raises MemoryFullError."""
    return Buffer(buffer.values, buffer.dtype, _allocate(buffer.shape, buffer.dtype, memory))


def _allocate(shape: tuple[int, ...], dtype: str, memory: Memory) -> Allocation:
    return memory.allocate(allocated_bytes(shape, dtype, memory), ArrayType(dtype, shape))


def allocated_bytes(shape: tuple[int, ...], dtype: str, memory: Memory) -> int:
    """Return the bytes an array takes: packed without gaps in HBM, whole tiles in VMEM."""
    element_bytes = format_of(dtype).element_bytes
    if not memory.is_tiled:
        return prod(shape) * element_bytes
    *outer, rows, columns = (1, 1, *shape)  # the two minor axes fill whole tiles
    sublanes = _SUBLANE_BYTES // element_bytes
    tiles = -(-rows // sublanes) * -(-columns // LANES)
    return prod(outer) * tiles * LANES * _SUBLANE_BYTES
