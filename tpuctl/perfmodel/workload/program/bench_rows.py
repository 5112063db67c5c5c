"""The measured set of `tpuctl bench NODE`: what is measured, and what the model says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tpuctl.perfmodel.workload.program.program_times import ProgramOperation, program_time
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate

MIB = 2**20
KINDS = ("matmul", "copy", "collective", "train_step")

ORDERS: Mapping[str, Any] = MappingProxyType(
    {
        "products": [["bf16", 512 << step] for step in range(5)] + [["int8", 4096]],
        "copies": [32 * MIB, 256 * MIB],
        "collectives": [MIB, 16 * MIB, 128 * MIB],
        "train_steps": [{"layers": 4, "hidden": 1024, "rows_per_device": 1024}],
    }
)
"""The sizes that are measured, each series from small to large."""

_SERIES = dict(zip(KINDS, ORDERS, strict=True))


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One measured time and its case; figures that a kind does not have are 0.

    A product has m, k and n. A copy or a collective (`exchange`) has `size_bytes`, of the whole
    array as `perfmodel.chip.collective` counts it. A train step has square `layers` of `hidden`
    numbers and a batch of `rows_per_device`. Raises ValueError for a kind that is not known.
    """

    kind: str
    measured_s: float
    dtype: str = "bf16"
    m: int = 0
    k: int = 0
    n: int = 0
    exchange: str = ""
    size_bytes: int = 0
    layers: int = 0
    hidden: int = 0
    rows_per_device: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}; one of: {', '.join(KINDS)}")
        if not 0 < self.measured_s < float("inf"):
            raise ValueError(f"not a time: {self.measured_s}")


def orders_of(kinds: Sequence[str]) -> dict[str, Any]:
    """What a worker is told to measure: the sizes of these kinds, and none of the others."""
    chosen = {_SERIES[kind] for kind in kinds}
    return {name: sizes if name in chosen else [] for name, sizes in ORDERS.items()}


def row_operations(row: BenchRow, devices: int) -> list[ProgramOperation]:
    """The operations of one run of a case on one of so many devices."""
    return _OPERATIONS[row.kind](row, devices)


def predict_row(hardware: SliceHardware, row: BenchRow) -> WorkloadEstimate:
    """What the model says of a case on a slice. Raises ValueError for one that cannot be."""
    return program_time(hardware, row_operations(row, hardware.devices))


def _product(row: BenchRow, _devices: int) -> list[ProgramOperation]:
    return [ProgramOperation("matmul", "product", row.dtype, sides=(row.m, row.k, row.n))]


def _copy(row: BenchRow, _devices: int) -> list[ProgramOperation]:
    size = row.size_bytes
    return [ProgramOperation("elementwise", "copy", read_bytes=size, written_bytes=size)]


def _collective(row: BenchRow, devices: int) -> list[ProgramOperation]:
    return [
        ProgramOperation(
            "collective", exchange=row.exchange, ways=devices, read_bytes=row.size_bytes
        )
    ]


def _train_step(row: BenchRow, devices: int) -> list[ProgramOperation]:
    """Three products a layer, one of which the first layer does not need; sums; the update."""
    rows, hidden, layers = row.rows_per_device, row.hidden, row.layers
    products = 3 * layers - 1
    weight_bytes = 2.0 * layers * hidden**2
    step = [
        ProgramOperation("matmul", "layer", count=products, sides=(rows, hidden, hidden)),
        ProgramOperation(
            "elementwise", "update", read_bytes=2 * weight_bytes, written_bytes=weight_bytes
        ),
    ]
    if devices > 1:
        step.append(
            ProgramOperation(
                "collective",
                "gradients",
                exchange="all_reduce",
                ways=devices,
                read_bytes=weight_bytes,
            )
        )
    return step


_OPERATIONS = dict(
    zip(KINDS, (_product, _copy, _collective, _train_step), strict=True),
)
