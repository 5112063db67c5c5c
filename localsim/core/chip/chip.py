"""One chip: every operation computes its real result and adds what it would have cost."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

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

Narrow = Literal["bf16", "f16", "e4m3", "e5m2", "int8", "pred"]
"""Formats in which the vector unit leaves its results in HBM, as a Buffer."""
NarrowProduct = Literal["bf16", "f16", "e4m3", "e5m2", "int8"]
"""Formats in which the matrix unit leaves its results in HBM, as a Buffer."""
Precision = Literal["default", "high", "highest"]


class Chip:
    """A chip of a generation of the catalog, its TensorCores together.

    What is put stays in its memories. An ndarray given to an operation is there for that operation
    alone, and so is a result that comes back as an ndarray. What would not fit the real chip's
    memory raises MemoryFullError.
    """

    def __init__(self, generation: str) -> None:
        """An idle chip with empty memories and counters; raises catalog.UnknownError."""
        chip = catalog.generation(generation).chip
        hbm_bytes = chip.usable_bytes
        vmem_bytes = chip.vmem_bytes_per_tensorcore * chip.tensorcores
        self.generation = generation
        self.hbm = Memory("HBM", hbm_bytes, generation=generation)
        self.vmem = Memory("VMEM", vmem_bytes, generation=generation, is_tiled=True)
        self.counters = Counters()
        self.executions = Executions()

    def put(self, values: ArrayLike, dtype: str = "f32", memory: str = "hbm") -> Buffer:
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

    @overload
    def matmul(
        self,
        left: Array,
        right: Array,
        *,
        dtype: str | None = None,
        precision: Precision = "default",
        result_dtype: Literal["f32", "int32"] | None = None,
    ) -> NDArray[Any]: ...

    @overload
    def matmul(
        self,
        left: Array,
        right: Array,
        *,
        dtype: str | None = None,
        precision: Precision = "default",
        result_dtype: NarrowProduct,
    ) -> Buffer: ...

    def matmul(
        self,
        left: Array,
        right: Array,
        *,
        dtype: str | None = None,
        precision: str = "default",
        result_dtype: str | None = None,
    ) -> NDArray[Any] | Buffer:
        """Multiply [..., m, k] x [..., k, n], batches broadcast, to float32; int8 to int32.

        `dtype` says what arrays other than Buffers are to the matrix unit: bf16 (they are rounded),
        f32, f16, int8, or codes of e4m3 or e5m2; by default bf16, and f32 with a precision above
        "default". A Buffer is what it holds. `precision` cuts f32 and f16 operands into bfloat16
        parts: "default" makes one product of them, "high" three, "highest" six; all others are
        multiplied exactly with any. With a narrow `result_dtype` (bf16, f16, e4m3, e5m2; int8 of
        int8, which wraps around) a Buffer in HBM comes back, of sums rounded once. Raises
        ValueError for what does not go together, TypeError for what is not an array.
        """
        given_dtype = dtype or ("bf16" if precision == "default" else "f32")
        a, b = (
            operands.matmul_operand(self._own(each), given_dtype, precision)
            for each in (left, right)
        )
        shape, result_shape = operands.product_shape(a.values.shape, b.values.shape)
        result_dtype = operands.product_dtype(a.dtype, result_dtype)
        result_bytes = self._make_room((a, b), result_shape, result_dtype)
        formats = a.dtype, b.dtype
        with self.executions:
            product = mxu.matmul(a.values, b.values, formats=formats, precision=precision)
        is_wide = result_dtype in ("f32", "int32")
        held = product if is_wide else self._hold_product(product, result_dtype)
        hbm_bytes = a.read_bytes + b.read_bytes + result_bytes
        passes = mxu.PASSES[precision] if mxu.is_cut(formats) else 1
        kind = "f16" if "f16" in formats else a.dtype
        self.charge(costs.matmul_cost(self.generation, shape, kind, hbm_bytes, passes))
        return held

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

        The function is given arrays that it cannot write. A float32 ndarray comes back; with any
        other dtype a Buffer in HBM, rounded once.
        """
        given = [operands.vector_operand(self._own(each)) for each in arrays]
        self._make_room(given, (), dtype)
        with self.executions:
            result = vpu.elementwise(function, *(each.values for each in given))
        written_bytes = self._make_room(given, result.shape, dtype)
        held = self._hold(result, dtype)
        self._charge_vector(given, written_bytes)
        return held

    @overload
    def reduce(
        self,
        kind: str,
        array: Array,
        axis: int | Sequence[int] | None = None,
        *,
        dtype: Literal["f32"] = "f32",
    ) -> F32: ...

    @overload
    def reduce(
        self,
        kind: str,
        array: Array,
        axis: int | Sequence[int] | None = None,
        *,
        dtype: Literal["bf16", "f16", "e4m3", "e5m2"],
    ) -> Buffer: ...

    def reduce(
        self,
        kind: str,
        array: Array,
        axis: int | Sequence[int] | None = None,
        *,
        dtype: str = "f32",
    ) -> F32 | Buffer:
        """Return the "sum", "max" or "mean" along axes (None: all), in float32.

        With any other dtype a Buffer in HBM comes back, rounded once.
        """
        given = operands.vector_operand(self._own(array))
        self._make_room([given], (), dtype)
        with self.executions:
            result = vpu.reduce(kind, given.values, axis)
        written_bytes = self._make_room([given], result.shape, dtype)
        held = self._hold(result, dtype)
        self._charge_vector([given], written_bytes)
        return held

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

    def _hold(self, result: NDArray[Any], dtype: str) -> F32 | Buffer:
        """A float32 result as it is, any other rounded to a Buffer in HBM."""
        if dtype == "f32":
            return np.asarray(result, np.float32)
        return buffers.hold_values(result, dtype, self.hbm)

    def _hold_product(self, product: NDArray[Any], dtype: str) -> Buffer:
        """A product in a narrow format, in HBM; int32 wraps around to int8."""
        narrow = product.astype(np.int8) if dtype == "int8" else product
        return buffers.hold_values(narrow, dtype, self.hbm)

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
