"""One chip: every operation computes its real result and adds what it would have cost."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from localsim.core.chip import buffers, costs, mxu, operands, vpu
from localsim.core.chip.buffers import Buffer
from localsim.core.chip.counters import Counters
from localsim.core.chip.memory import Memory
from localsim.core.chip.operands import Array, Operand
from localsim.core.numbers.formats import ArrayType, format_of
from localsim.core.numbers.numerics import F32
from localsim.guest.localsim_chips.executions import Executions
from tpuctl import catalog

_Any = TypeVar("_Any", bound=Array)

Narrow = Literal["bf16", "e4m3", "e5m2", "int8"]
"""Formats in which the vector unit leaves its results in HBM, as a Buffer."""


class Chip:
    """A chip of a generation of the catalog, its TensorCores together.

    What is put stays in its memories. An ndarray given to an operation is there for that operation
    alone, and so is a result that comes back as an ndarray. What would not fit the real chip's
    memory raises MemoryFullError.
    """

    def __init__(self, generation: str) -> None:
        """An idle chip with empty memories and counters; raises catalog.UnknownError."""
        chip = catalog.generation(generation).chip
        hbm_bytes = chip.hbm_usable_bytes or chip.hbm_bytes
        vmem_bytes = chip.vmem_bytes_per_tensorcore * chip.tensorcores
        self.generation = generation
        self.hbm = Memory("HBM", hbm_bytes, generation=generation)
        self.vmem = Memory("VMEM", vmem_bytes, generation=generation, is_tiled=True)
        self.counters = Counters()
        self.executions = Executions()

    def put(self, values: NDArray[Any], dtype: str = "f32", memory: str = "hbm") -> Buffer:
        """Hold values in a format of formats.FORMATS; the way from the host is not charged."""
        there, shape = self._memory(memory), np.shape(values)
        # First of all: the copy may be more than this machine has.
        there.make_room(buffers.allocated_bytes(shape, dtype, there), ArrayType(dtype, shape))
        return buffers.hold_values(np.asarray(values), dtype, there)

    def dma(self, buffer: Buffer, memory: str) -> Buffer:
        """Copy a Buffer to the other memory, "hbm" or "vmem"; raises ValueError if it is there."""
        there = self._memory(memory)
        if there is self._own(operands.require_buffer(buffer)).memory:
            raise ValueError(f"{buffer!r} is there already")
        with self.executions:
            moved = buffers.copy_buffer(buffer, there)
        self.charge(costs.dma_cost(self.generation, buffer.packed_bytes))
        return moved

    def matmul(self, left: Array, right: Array, *, dtype: str = "bf16") -> NDArray[Any]:
        """Multiply [..., m, k] x [..., k, n], batches broadcast, to float32; int8 to int32.

        `dtype` says what ndarrays are to the matrix unit: bf16 (they are rounded), int8, or codes
        of e4m3 or e5m2. A Buffer is what it holds. Raises ValueError for what does not go together,
        TypeError for what is not an array.
        """
        a, b = (operands.matmul_operand(self._own(each), dtype) for each in (left, right))
        shape, result_shape = operands.product_shape(left.shape, right.shape)
        result_dtype = "int32" if a.dtype == "int8" else "f32"
        result_bytes = self._make_room((a, b), result_shape, result_dtype)
        with self.executions:
            product = mxu.matmul(a.values, b.values, formats=(a.dtype, b.dtype))
        hbm_bytes = a.read_bytes + b.read_bytes + result_bytes
        self.charge(costs.matmul_cost(self.generation, shape, a.dtype, hbm_bytes))
        return product

    @overload
    def elementwise(
        self, function: Callable[..., NDArray[Any]], *arrays: Array, dtype: Literal["f32"] = "f32"
    ) -> F32: ...

    @overload
    def elementwise(
        self, function: Callable[..., NDArray[Any]], *arrays: Array, dtype: Narrow
    ) -> Buffer: ...

    def elementwise(
        self, function: Callable[..., NDArray[Any]], *arrays: Array, dtype: str = "f32"
    ) -> F32 | Buffer:
        """A function of arrays on the vector unit, in float32.

        A float32 ndarray comes back; with any other dtype a Buffer in HBM, rounded once.
        """
        given = [operands.vector_operand(self._own(each)) for each in arrays]
        self._make_room(given, (), dtype)
        with self.executions:
            result = vpu.elementwise(function, *(each.values for each in given))
        written_bytes = self._make_room(given, result.shape, dtype)
        held: F32 | Buffer
        if dtype == "f32":
            held = np.asarray(result, np.float32)
        else:
            held = buffers.hold_values(result, dtype, self.hbm)
        self._charge_vector(given, written_bytes)
        return held

    def reduce(self, kind: str, array: Array, axis: int | Sequence[int] | None = None) -> F32:
        """Return the "sum", "max" or "mean" along axes (None: all), in float32."""
        given = operands.vector_operand(self._own(array))
        self._make_room([given], (), "f32")
        with self.executions:
            result = vpu.reduce(kind, given.values, axis)
        self._charge_vector([given], self._make_room([given], result.shape, "f32"))
        return result

    def charge_traffic(self, size_bytes: int) -> None:
        """Add the cost of reading or writing that many bytes of HBM."""
        self.charge(costs.elementwise_cost(self.generation, size_bytes, 0, 0))

    def charge(self, cost: Counters) -> None:
        """Add the cost of something that was done for this chip elsewhere."""
        self.counters += cost
        if cost.modelled_s > 0:
            self.executions.note(cost.modelled_s)

    def _memory(self, name: str) -> Memory:
        memories = {"hbm": self.hbm, "vmem": self.vmem}
        if name not in memories:
            raise ValueError(f"unknown memory {name!r}; one of: {', '.join(memories)}")
        return memories[name]

    def _own(self, array: _Any) -> _Any:
        """The same; raises ValueError for what is in another chip's memory."""
        if isinstance(array, Buffer) and array.memory not in (self.hbm, self.vmem):
            raise ValueError(f"{array!r} is held by another chip")
        return array

    def _charge_vector(self, given: Sequence[Operand], written_bytes: int) -> None:
        read_bytes = operations = 0
        for operand in given:
            read_bytes += operand.read_bytes
            operations = max(operations, operand.values.size)
        self.charge(costs.elementwise_cost(self.generation, read_bytes, written_bytes, operations))

    def _make_room(self, given: Sequence[Operand], result: tuple[int, ...], dtype: str) -> int:
        """See that one operation fits HBM beside what is held; the bytes of its result."""
        result_bytes = prod(result) * format_of(dtype).element_bytes
        added_bytes = result_bytes
        for operand in given:
            added_bytes += operand.added_bytes
        self.hbm.make_room(added_bytes, ArrayType(dtype, result, " and its operands"))
        return result_bytes
