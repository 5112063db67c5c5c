"""How long any program takes on one device of a slice: a list of operations, one after the other.

Each operation is what one kernel does: a product of matrices, a convolution, a pass of the vector
unit over arrays in HBM, or an exchange between devices. The chip model says how long each takes
(`tpuctl.perfmodel.chip`); the sum is the program's. An exchange is not hidden behind computing in
the value and in the greatest time; in the least time the shorter of both is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from tpuctl.perfmodel.chip import collectives, gemm, memory
from tpuctl.perfmodel.chip.calibration import constants, sources, spread
from tpuctl.perfmodel.chip.numeric import Figure
from tpuctl.perfmodel.chip.queries import collective_ends, matmul_ends, part_of
from tpuctl.perfmodel.chip.torus import Axis
from tpuctl.perfmodel.workload.program.convolution import Convolution, matmul_sides
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate

KINDS = ("matmul", "convolution", "elementwise", "reduce", "gather", "other", "collective")
TERMS = ("compute", "memory", "vector", "launch", "conversion", "ici")
_CONSTANTS = ("launch_s", "compute_efficiency", "memory_efficiency")


@dataclass(frozen=True, slots=True)
class ProgramOperation:
    """One operation on one device, done `count` times.

    A matmul has `sides` (m, k, n) of `batch` products, a convolution its shape. What crosses HBM is
    `read_bytes` and `written_bytes`; for a matmul or a convolution without them, its operands and
    its result. `flops` are operations of the vector unit in a pass. A collective is `exchange`
    (all_reduce, all_gather, reduce_scatter, all_to_all, permute) among `ways` devices; its
    `read_bytes` are the whole array, as `perfmodel.chip.collective` counts it. An operation
    `is_fused` is part of the kernel before it and pays no launch. Raises ValueError for a kind or a
    figure that cannot be.
    """

    kind: str
    name: str = ""
    dtype: str = "bf16"
    count: float = 1
    sides: tuple[float, float, float] = (0, 0, 0)
    batch: float = 1
    convolution: Convolution | None = None
    read_bytes: float = 0
    written_bytes: float = 0
    flops: float = 0
    exchange: str = ""
    ways: int = 1
    is_fused: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}; one of: {', '.join(KINDS)}")
        if (self.kind == "convolution") != (self.convolution is not None):
            raise ValueError("a convolution has a shape, and nothing else has one")
        if self.dtype not in gemm.FORMATS:
            raise ValueError(f"unknown dtype {self.dtype!r}; one of: {', '.join(gemm.FORMATS)}")
        figures = (self.count, *self.sides, self.batch, self.flops, self.ways)
        if not all(0 <= each < np.inf for each in (*figures, self.read_bytes, self.written_bytes)):
            raise ValueError("figures of an operation must be finite and not negative")

    @property
    def products(self) -> tuple[float, float, float, float]:
        """m, k, n and batch of a matmul or convolution; zeros of everything else."""
        if self.convolution is not None:
            return matmul_sides(self.convolution)
        return (*self.sides, self.batch)

    @property
    def matmul_flops(self) -> float:
        """Operations of the MXU, two for a multiply-add, of all `count` times."""
        return 2.0 * self.count * prod(self.products)

    @property
    def hbm_bytes(self) -> float:
        """Bytes that cross HBM each time."""
        if moved := self.read_bytes + self.written_bytes:
            return moved
        form, shape = gemm.FORMATS[self.dtype], self.convolution
        if shape is not None:
            pixels = shape.image_elements + shape.weights
            return form.operand_bytes * pixels + form.result_bytes * shape.result_elements
        m, k, n = self.sides
        operands, result = m * k + k * n, m * n
        return self.batch * (form.operand_bytes * operands + form.result_bytes * result)


@dataclass(frozen=True, slots=True)
class OperationTimes:
    """Seconds of every operation of a program, all of its `count` times, as arrays in its order."""

    value_s: Figure
    low_s: Figure
    high_s: Figure
    terms: Mapping[str, Figure]
    hidden: Mapping[str, Figure]


def program_time(
    hardware: SliceHardware, operations: Sequence[ProgramOperation]
) -> WorkloadEstimate:
    """Modelled seconds of a program's operations together; raises ValueError for an empty list."""
    if not operations:
        raise ValueError("a program needs at least one operation")
    times = operation_times(hardware, operations)
    exchanges = np.array([each.kind == "collective" for each in operations])
    terms = {name: float(parts.sum()) for name, parts in times.terms.items() if parts.any()}
    lows = [float(times.low_s[chosen].sum()) for chosen in (exchanges, ~exchanges)]
    names = dict.fromkeys((*_CONSTANTS, *(collectives.CONSTANTS if exchanges.any() else ())))
    return WorkloadEstimate(
        value_s=float(times.value_s.sum()),
        low_s=max(lows),
        high_s=float(times.high_s.sum()),
        terms=terms,
        hidden={name: float(parts.sum()) for name, parts in times.hidden.items() if parts.any()},
        bound=max(terms, key=lambda name: terms[name], default="compute"),
        sources=sources(hardware.generation, tuple(names)),
    )


def operation_times(
    hardware: SliceHardware, operations: Sequence[ProgramOperation]
) -> OperationTimes:
    """Modelled seconds of each operation of a program."""
    count = len(operations)
    rows = {name: np.zeros(count) for name in ("value", "low", "high")}
    terms = {name: np.zeros(count) for name in TERMS}
    hidden = {name: np.zeros(count) for name in TERMS}
    for (kind, *_), places in _alike(operations).items():
        alike = [operations[place] for place in places]
        timed = _TIMED_AS[kind](hardware, alike)
        counts = np.array([each.count for each in alike], float)
        for target, source in ((terms, timed.terms), (hidden, timed.hidden)):
            for name, parts in source.items():
                target[name][places] = counts * parts
        for name in rows:
            rows[name][places] = counts * getattr(timed, f"{name}_s")
    return OperationTimes(rows["value"], rows["low"], rows["high"], terms, hidden)


def _alike(operations: Sequence[ProgramOperation]) -> dict[tuple[str, str, str, int], list[int]]:
    """The places of operations that one formula answers at once."""
    places: dict[tuple[str, str, str, int], list[int]] = {}
    for place, each in enumerate(operations):
        key = (each.kind, each.dtype, each.exchange, each.ways)
        places.setdefault(key, []).append(place)
    return places


def _products(hardware: SliceHardware, alike: Sequence[ProgramOperation]) -> OperationTimes:
    fitted, device = part_of(hardware.generation, "device")
    m, k, n, batch = (np.array(side, float) for side in zip(*map(_sides, alike), strict=True))
    moved = np.array([each.hbm_bytes for each in alike], float)
    work = gemm.MatmulWork(m, k, n, alike[0].dtype, batch, moved)
    parts = gemm.terms(fitted, device, work)
    parts["launch"] = _launch(alike, parts["launch"])
    low, high = matmul_ends(fitted, work, parts)
    moving = parts["memory"] + parts["reread"]
    is_compute = parts["compute"] >= moving
    return OperationTimes(
        value_s=gemm.total(parts),
        low_s=low,
        high_s=high,
        terms={
            "launch": parts["launch"],
            "compute": np.where(is_compute, parts["compute"], 0.0),
            "memory": np.where(is_compute, 0.0, moving) + parts["exposed"],
            "conversion": parts["conversion"] + parts["retiling"],
        },
        hidden={
            "compute": np.where(is_compute, 0.0, parts["compute"]),
            "memory": np.where(is_compute, moving, 0.0),
        },
    )


def _passes(hardware: SliceHardware, alike: Sequence[ProgramOperation]) -> OperationTimes:
    fitted, device = part_of(hardware.generation, "device")
    read, written, flops = (
        np.array([getattr(each, name) for each in alike], float)
        for name in ("read_bytes", "written_bytes", "flops")
    )
    work = memory.VectorPass(read, written, flops, alike[0].dtype)
    parts = memory.elementwise_terms(fitted, device, work)
    launch = _launch(alike, parts["launch"])
    is_memory = parts["memory"] >= parts["vector"]
    value = memory.total(parts) - parts["launch"] + launch
    bounds = spread("elementwise")
    at_peak = parts["memory"] * fitted.memory_efficiency
    return OperationTimes(
        value_s=value,
        low_s=np.minimum(value, np.maximum(value * bounds.low, at_peak)),
        high_s=value * bounds.high,
        terms={
            "launch": launch,
            "memory": np.where(is_memory, parts["memory"], 0.0),
            "vector": np.where(is_memory, 0.0, parts["vector"]),
            "conversion": parts["conversion"],
        },
        hidden={
            "memory": np.where(is_memory, 0.0, parts["memory"]),
            "vector": np.where(is_memory, parts["vector"], 0.0),
        },
    )


def _exchanges(hardware: SliceHardware, alike: Sequence[ProgramOperation]) -> OperationTimes:
    fitted = constants(hardware.generation)
    sizes = np.array([each.read_bytes for each in alike], float)
    axes = axes_among(hardware, alike[0].ways)
    parts, along_axes = (
        collectives.terms(
            fitted, hardware.device, alike[0].exchange, axes, sizes, is_topology_aware=is_aware
        )
        for is_aware in (False, True)
    )
    value = np.broadcast_to(collectives.total(parts), sizes.shape)
    low, high = collective_ends(fitted, parts, along_axes)
    return OperationTimes(
        value_s=value,
        low_s=low,
        high_s=high,
        terms={"launch": parts["launch"], "ici": value - parts["launch"]},
        hidden={},
    )


_TIMED_AS: Mapping[str, Callable[[SliceHardware, Sequence[ProgramOperation]], OperationTimes]] = (
    MappingProxyType(
        {
            **dict.fromkeys(("matmul", "convolution"), _products),
            **dict.fromkeys(("elementwise", "reduce", "gather", "other"), _passes),
            "collective": _exchanges,
        }
    )
)


@cache
def axes_among(hardware: SliceHardware, ways: int) -> tuple[Axis, ...]:
    """The axes of the torus that `ways` devices exchange over.

    They are the axes of the slice, or some of them, whose chips they are; else one open line of so
    many chips. Two devices of one chip are taken to be neighbours.
    """
    chips = ways // hardware.devices_per_chip if ways >= hardware.devices else ways
    for count in range(len(hardware.axes), 0, -1):
        for chosen in combinations(hardware.axes, count):
            if prod(axis.length for axis in chosen) == chips:
                return chosen
    return (Axis(chips, is_ring=False),)


def _sides(operation: ProgramOperation) -> tuple[float, float, float, float]:
    return operation.products


def _launch(alike: Sequence[ProgramOperation], launch_s: Any) -> Figure:
    return np.where([each.is_fused for each in alike], 0.0, launch_s)
