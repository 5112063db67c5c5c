"""The fastest way to run a training step on a slice, among those that fit into its memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tpuctl.models.planning.plan_spec import OPTIMIZERS, REMATS, TrainPlanSpec
from tpuctl.operations.planning.mesh_choices import Mesh, batch_ways, parallelism_of
from tpuctl.operations.planning.planned_slice import Fit, PlannedStep
from tpuctl.perfmodel.workload.device_memory import train_memory
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.train_run import TrainRun
from tpuctl.perfmodel.workload.train_step import train_step
from tpuctl.perfmodel.workload.transformer import Transformer
from tpuctl.perfmodel.workload.workload_estimate import MemoryEstimate, WorkloadEstimate

ACCUMULATIONS = np.array([1, 2, 4, 8, 16, 32, 64], np.int64)
"""Forward and backward passes of a step that are tried: the smallest that fits is taken."""
COMPUTING = frozenset({"matmul", "experts", "attention"})
"""The terms of a step in which the MXU multiplies."""
WAY_SEQUENCES = 2 ** np.arange(13, dtype=np.int64)
"""Sequences of one way of the batch that are tried for its bounds."""


class StepModels(NamedTuple):
    """What says how long a step takes, and what it holds."""

    memory: Callable[[SliceHardware, Transformer, TrainRun], MemoryEstimate] = train_memory
    step: Callable[[SliceHardware, Transformer, TrainRun], WorkloadEstimate] = train_step


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
    meshes: tuple[Mesh, ...]
    memory: MemoryEstimate
    grid: tuple[int, int]
    """The shape of the arrays of `memory`."""
    places: Any
    """Where each stands in them: rows and columns."""


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
    meshes: tuple[Mesh, ...],
    *,
    remat: str | None = None,
    models: StepModels,
) -> StepChoice:
    """The fastest of the meshes that fit; a tight one only where no other fits.

    Without `remat` every kind is tried, the one that needs least memory first.
    """
    least_needed, usable = float("inf"), 0.0
    found: dict[Fit, list[_Fitting]] = {Fit.YES: [], Fit.TIGHT: []}
    for kind in (remat,) if remat else REMATS[::-1]:
        asked = replace(
            run,
            remat=kind,
            parallelism=parallelism_of(meshes, is_column=True),
            accumulation_steps=ACCUMULATIONS,
        )
        memory = models.memory(hardware, model, asked)
        usable = memory.usable_bytes
        values, highs, is_even = _memory_grid(memory, run.sequences, meshes)
        least_needed = min(least_needed, float(values[is_even].min()))
        for fit, sizes in ((Fit.YES, highs), (Fit.TIGHT, values)):
            fitting = (sizes <= usable) & is_even
            if fitting.any():
                found[fit].append(_fitting(asked, meshes, memory, fitting))
        if not found[Fit.TIGHT]:
            break  # every other kind needs more
    for fit, choices in found.items():
        if choices:
            steps = [_fastest(hardware, model, each, models) for each in choices]
            best = min(steps, key=lambda step: step.step_s)
            return StepChoice(fit, best, usable, best.memory_bytes)
    return StepChoice(Fit.NO, None, usable, least_needed)


def _memory_grid(memory: MemoryEstimate, sequences: int, meshes: Sequence[Mesh]) -> Any:
    """Values and upper ends by mesh and accumulation, and which of them divide the batch."""
    shape = (len(meshes), len(ACCUMULATIONS))
    a_way = np.array([sequences // batch_ways(mesh) for mesh in meshes], np.int64)[:, None]
    return (
        np.broadcast_to(memory.value_bytes, shape),
        np.broadcast_to(memory.high_bytes, shape),
        a_way % ACCUMULATIONS == 0,
    )


def _fitting(
    run: TrainRun, meshes: tuple[Mesh, ...], memory: MemoryEstimate, fitting: Any
) -> _Fitting:
    """The meshes that fit at all, each with the smallest accumulation with which it does."""
    rows = np.flatnonzero(fitting.any(axis=1))
    columns = fitting[rows].argmax(axis=1)
    chosen = tuple(meshes[row] for row in rows)
    cut = replace(
        run, parallelism=parallelism_of(chosen), accumulation_steps=ACCUMULATIONS[columns]
    )
    return _Fitting(cut, chosen, memory, fitting.shape, (rows, columns))


def _fastest(
    hardware: SliceHardware, model: Transformer, fitting: _Fitting, models: StepModels
) -> PlannedStep:
    """The fastest of the meshes that fit; of equal ones the first, which talks least."""
    run, memory = fitting.run, fitting.memory
    estimate = models.step(hardware, model, run)
    shape = (len(fitting.meshes),)
    at = int(np.broadcast_to(estimate.value_s, shape).argmin())
    rows, columns = fitting.places
    place = (int(rows[at]), int(columns[at]))

    def held(figure: Any) -> float:
        return float(np.broadcast_to(figure, fitting.grid)[place])

    return PlannedStep(
        mesh=fitting.meshes[at],
        remat=run.remat,
        accumulation_steps=int(run.accumulation_steps[at]),
        step_s=_picked(estimate.value_s, shape, at),
        step_low_s=_picked(estimate.low_s, shape, at),
        step_high_s=_picked(estimate.high_s, shape, at),
        bound=str(np.broadcast_to(np.asarray(estimate.bound), shape)[at]),
        terms={name: _picked(term, shape, at) for name, term in estimate.terms.items()},
        hidden={name: _picked(term, shape, at) for name, term in estimate.hidden.items()},
        memory_bytes=held(memory.value_bytes),
        memory_high_bytes=held(memory.high_bytes),
        memory_kinds={name: held(kind) for name, kind in memory.kinds.items()},
        sources=(*estimate.sources, *memory.sources),
    )


def _picked(figure: Any, shape: tuple[int, ...], at: int) -> float:
    return float(np.broadcast_to(figure, shape)[at])


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

