"""How long a traced program takes on slices, and whether it fits into a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpuctl import catalog
from tpuctl.errors import PreconditionError
from tpuctl.models.money.price_book import PriceBook
from tpuctl.models.planning.plan_spec import SliceChoice
from tpuctl.operations.planning.compared_slices import ComparedSlice, compared_slices
from tpuctl.operations.planning.planned_slice import Fit
from tpuctl.operations.planning.tracing.traced_program import TracedProgram
from tpuctl.perfmodel.chip.gemm import SUBLANES
from tpuctl.perfmodel.chip.numeric import round_up
from tpuctl.perfmodel.workload.program import ProgramOperation, operation_times, program_time
from tpuctl.perfmodel.workload.program.term_calibration import TermCalibration, calibrate
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate

_RUNS = 1_000_000


@dataclass(frozen=True, slots=True)
class TracedRow:
    """A traced program on a type of slice; memory is an upper bound, so that `tight` may fit."""

    where: ComparedSlice
    fit: Fit
    why: str
    devices: int
    usable_bytes: float
    estimate: WorkloadEstimate | None = None
    mxu_utilization: float | None = None
    """The share of the peak that the MXUs reach, what is computed again included."""

    @property
    def usd_per_million_runs(self) -> float | None:
        """On demand, of the whole slice; None without a price."""
        price = self.where.on_demand
        if price is None or self.estimate is None:
            return None
        return float(price.usd_per_hour * self.estimate.value_s * _RUNS / 3600)


@dataclass(frozen=True, slots=True)
class OperationShare:
    """One operation of a program on a slice: what it takes of the whole, and what it wastes."""

    operation: ProgramOperation
    seconds: float
    share: float
    padding: float | None
    """The part of the MXU's work that is padding; None for what does not use it."""


def plan_program(
    program: TracedProgram,
    choice: SliceChoice,
    book: PriceBook,
    now_s: float,
    calibration: TermCalibration | None = None,
) -> list[TracedRow]:
    """A row for each slice: those that are named, else of each generation the smallest it fills.

    Raises NotFoundError, and PreconditionError where no slice has the devices of the mesh.
    """
    compared = compared_slices(choice, book, now_s)
    chosen = compared if choice.types else _smallest(compared, program.devices)
    if not chosen:
        raise PreconditionError(
            f"no slice has the {program.devices} devices of the mesh {mesh_words(program.mesh)}",
            hint="run: tpuctl catalog types",
        )
    return [_row(program, where, calibration) for where in chosen]


def devices_of(choice: SliceChoice) -> int:
    """The devices of the first type that is named, for the mesh of a function; else 1."""
    for name in choice.types:
        kind = catalog.accelerator_type(name)
        return slice_hardware(kind.generation, kind.topology).devices
    return 1


def operation_shares(program: TracedProgram, row: TracedRow, most: int) -> list[OperationShare]:
    """The operations that take longest on a row's slice, at most so many; not calibrated."""
    hardware = slice_hardware(row.where.kind.generation, row.where.kind.topology)
    times = operation_times(hardware, program.operations)
    total = float(times.value_s.sum())
    order = sorted(range(len(program.operations)), key=lambda at: -float(times.value_s[at]))
    return [
        OperationShare(
            operation=program.operations[at],
            seconds=float(times.value_s[at]),
            share=float(times.value_s[at]) / total,
            padding=_padding(program.operations[at], hardware.device.mxu_side),
        )
        for at in order[:most]
    ]


def mesh_words(mesh: Mapping[str, int]) -> str:
    """`data=4,model=2`."""
    return ",".join(f"{name}={length}" for name, length in mesh.items())


def _smallest(compared: Sequence[ComparedSlice], devices: int) -> list[ComparedSlice]:
    """Of each generation the smallest slice: one that the mesh fills, or any for one device."""
    smallest: dict[str, ComparedSlice] = {}
    for where in sorted(compared, key=lambda each: each.chips):
        hardware = slice_hardware(where.kind.generation, where.kind.topology)
        if devices in (1, hardware.devices):
            smallest.setdefault(where.kind.generation, where)
    return list(smallest.values())


def _row(
    program: TracedProgram, where: ComparedSlice, calibration: TermCalibration | None
) -> TracedRow:
    hardware = slice_hardware(where.kind.generation, where.kind.topology)
    usable = float(hardware.device.usable_bytes)
    if program.devices not in (1, hardware.devices):
        mesh = f"the mesh {mesh_words(program.mesh)} has {program.devices} devices"
        return TracedRow(where, Fit.NO, f"{mesh}, not {hardware.devices}", 0, usable)
    fit, why = _fit(program, usable)
    if not program.operations:
        return TracedRow(where, fit, why, program.devices, usable)
    estimate = program_time(hardware, program.operations)
    if calibration is not None:
        estimate = calibrate(hardware, estimate, calibration)
    utilization = program.matmul_flops / float(estimate.value_s) / hardware.device.bf16_flops
    return TracedRow(where, fit, why, program.devices, usable, estimate, utilization)


def _fit(program: TracedProgram, usable_bytes: float) -> tuple[Fit, str]:
    if program.peak_bytes <= usable_bytes:
        return Fit.YES, ""
    if max(program.argument_bytes, program.result_bytes) <= usable_bytes:
        return Fit.TIGHT, "the upper bound of its memory does not fit"
    return Fit.NO, "its arguments or results do not fit"


def _padding(operation: ProgramOperation, mxu_side: int) -> float | None:
    m, k, n, batch = operation.products
    useful = m * k * n * batch
    if not useful:
        return None
    padded = round_up(m, SUBLANES) * round_up(k, mxu_side) * round_up(n, mxu_side)
    return float(1.0 - useful / (padded * batch))
