"""The fastest way to run a training step on a slice, among those that fit into its memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpuctl.models.planning.plan_spec import OPTIMIZERS, REMATS, TrainPlanSpec
from tpuctl.operations.planning.mesh_choices import MeshTable, batch_ways
from tpuctl.operations.planning.planned_slice import Fit, PlannedStep
from tpuctl.perfmodel.workload.memory.device_memory import train_memory
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.train_run import TrainRun
from tpuctl.perfmodel.workload.training.train_step import train_step
from tpuctl.perfmodel.workload.transformer import Transformer
from tpuctl.perfmodel.workload.workload_estimate import MemoryEstimate, WorkloadEstimate

if TYPE_CHECKING:
    from tpuctl.perfmodel.workload.program.term_calibration import TermCalibration

ACCUMULATIONS = np.array([1, 2, 4, 8, 16, 32, 64], np.int64)
"""Forward and backward passes of a step that are tried: the smallest that fits is taken."""
COMPUTING = frozenset({"matmul", "experts", "attention"})
"""The terms of a step in which the MXU multiplies."""
WAY_SEQUENCES = 2 ** np.arange(13, dtype=np.int64)
"""Sequences of one way of the batch that are tried for its bounds."""


StepModel = Callable[[SliceHardware, Transformer, TrainRun], WorkloadEstimate]


class StepModels(NamedTuple):
    """What says how long a step takes, and what it holds."""

    memory: Callable[[SliceHardware, Transformer, TrainRun], MemoryEstimate] = train_memory
    step: StepModel = train_step


def calibrated_step(calibration: TermCalibration) -> StepModel:
    """The model of a step whose terms are multiplied by what was measured."""
    from tpuctl.perfmodel.workload.program.term_calibration import calibrate

    def step(hardware: SliceHardware, model: Transformer, run: TrainRun) -> WorkloadEstimate:
        return calibrate(hardware, train_step(hardware, model, run), calibration)

    return step


class StepChoice(NamedTuple):
    """The best step and whether it fits; without one, what the smallest would need."""

    fit: Fit
    step: PlannedStep | None
    usable_bytes: float
    needed_bytes: float


class BatchBounds(NamedTuple):
    """Sequences of a batch; None where none of those that were tried is one."""

    least_compute_bound: int | None
    largest: int | None


class _Fitting(NamedTuple):
    """The meshes that fit with one kind of rematerialisation, each with its accumulation."""

    run: TrainRun
    memory: MemoryEstimate
    rows: Any
    """Places of the meshes in the table, and in the first direction of `memory`."""
    columns: Any
    """Places of their accumulations, and in the second direction of `memory`."""


def run_of(spec: TrainPlanSpec, sequences: int) -> TrainRun:
    """The run of a plan with so many sequences a batch, before it is cut."""
    return TrainRun(
        sequences=sequences,
        sequence_tokens=spec.sequence_tokens,
        precision=spec.precision,
        moment_bytes=OPTIMIZERS[spec.optimizer],
    )


def best_step(
    hardware: SliceHardware,
    model: Transformer,
    run: TrainRun,
    table: MeshTable,
    *,
    remat: str | None = None,
    models: StepModels,
) -> StepChoice:
    """The fastest of the meshes that fit; a tight one only where no other fits.

    Without `remat` every kind is tried, the one that needs least memory first.
    """
    a_way = run.sequences // table.batch_ways[:, None]
    is_even = a_way % ACCUMULATIONS == 0
    least_needed, usable = float("inf"), 0.0
    found: dict[Fit, list[tuple[TrainRun, MemoryEstimate, Any]]] = {Fit.YES: [], Fit.TIGHT: []}
    for kind in (remat,) if remat else REMATS[::-1]:
        asked = replace(
            run, remat=kind, parallelism=table.column(), accumulation_steps=ACCUMULATIONS
        )
        memory = models.memory(hardware, model, asked)
        usable = memory.usable_bytes
        values = np.broadcast_to(memory.value_bytes, is_even.shape)
        least_needed = min(least_needed, float(values[is_even].min()))
        for fit, sizes in ((Fit.YES, memory.high_bytes), (Fit.TIGHT, values)):
            fitting = (sizes <= usable) & is_even
            if fitting.any():
                found[fit].append((asked, memory, fitting))
        if not found[Fit.TIGHT]:
            break  # every other kind needs more
    for fit, choices in found.items():
        if choices:
            fitted = [_fitting(table, *choice) for choice in choices]
            best = _fastest(hardware, model, table, fitted, models)
            return StepChoice(fit, best, usable, best.memory_bytes)
    return StepChoice(Fit.NO, None, usable, least_needed)


def _fitting(table: MeshTable, run: TrainRun, memory: MemoryEstimate, fitting: Any) -> _Fitting:
    """The meshes that fit at all, each with the smallest accumulation with which it does."""
    rows = np.flatnonzero(fitting.any(axis=1))
    columns = fitting[rows].argmax(axis=1)
    cut = replace(run, parallelism=table.chosen(rows), accumulation_steps=ACCUMULATIONS[columns])
    return _Fitting(cut, memory, rows, columns)


def _fastest(
    hardware: SliceHardware,
    model: Transformer,
    table: MeshTable,
    choices: Sequence[_Fitting],
    models: StepModels,
) -> PlannedStep:
    """The fastest mesh of all kinds of rematerialisation; of equal ones the first."""
    estimates = [models.step(hardware, model, each.run) for each in choices]
    times = [
        np.broadcast_to(each.value_s, len(of.rows))
        for each, of in zip(estimates, choices, strict=True)
    ]
    number = min(range(len(choices)), key=lambda each: float(times[each].min()))
    fitting, estimate, at = choices[number], estimates[number], int(times[number].argmin())
    row, column = int(fitting.rows[at]), int(fitting.columns[at])
    memory = fitting.memory

    def held(figure: Any) -> float:
        shape = (len(table.meshes), len(ACCUMULATIONS))
        return float(np.broadcast_to(figure, shape)[row, column])

    return PlannedStep(
        mesh=table.meshes[row],
        remat=fitting.run.remat,
        accumulation_steps=int(ACCUMULATIONS[column]),
        step_s=_element(estimate.value_s, at),
        step_low_s=_element(estimate.low_s, at),
        step_high_s=_element(estimate.high_s, at),
        bound=str(np.ravel(estimate.bound)[at if np.size(estimate.bound) > 1 else 0]),
        terms={name: _element(term, at) for name, term in estimate.terms.items()},
        hidden={name: _element(term, at) for name, term in estimate.hidden.items()},
        memory_bytes=held(memory.value_bytes),
        memory_high_bytes=held(memory.high_bytes),
        memory_kinds={name: held(kind) for name, kind in memory.kinds.items()},
        sources=(*estimate.sources, *memory.sources),
    )


def _element(figure: Any, at: int) -> float:
    """One element of an array, or the number that stands for all of them."""
    array = np.ravel(figure)
    return float(array[at] if len(array) > 1 else array[0])


def batch_bounds(
    hardware: SliceHardware,
    model: Transformer,
    run: TrainRun,
    step: PlannedStep,
    models: StepModels,
) -> BatchBounds:
    """The smallest batch that is bound by computing, and the largest that fits, in one pass.

    Each way of the mesh has 1, 2, 4, ... 4096 sequences.
    """
    ways = batch_ways(step.mesh)
    asked = replace(
        run,
        sequences=WAY_SEQUENCES * ways,
        remat=step.remat,
        parallelism=Parallelism(**step.mesh),
        accumulation_steps=1,
    )
    memory = models.memory(hardware, model, asked)
    shape = WAY_SEQUENCES.shape
    fits = np.flatnonzero(np.broadcast_to(memory.high_bytes, shape) <= memory.usable_bytes)
    bounds = np.broadcast_to(np.asarray(models.step(hardware, model, asked).bound), shape)
    computing = [at for at, bound in enumerate(bounds) if str(bound) in COMPUTING]
    return BatchBounds(
        int(WAY_SEQUENCES[computing[0]] * ways) if computing else None,
        int(WAY_SEQUENCES[fits[-1]] * ways) if len(fits) else None,
    )
