"""Plan a training run: for each slice the best sharding, how long it takes and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tpuctl import catalog
from tpuctl.byte_size import count_text, size_text
from tpuctl.errors import PreconditionError, UsageError
from tpuctl.models.money.price_book import PriceBook
from tpuctl.models.planning.mesh_text import mesh_text
from tpuctl.models.planning.plan_spec import TrainPlanSpec
from tpuctl.operations.planning import scaling_rules
from tpuctl.operations.planning.best_step import StepModels, batch_bounds, best_step, run_of
from tpuctl.operations.planning.compared_slices import (
    ComparedSlice,
    compared_slices,
    offered_slices,
)
from tpuctl.operations.planning.mesh_choices import (
    MeshTable,
    filled_mesh,
    mesh_choices,
    mesh_fault,
    mesh_table,
    sides_of,
)
from tpuctl.operations.planning.plan_specs import transformer
from tpuctl.operations.planning.planned_slice import Fit, Mark, PlannedSlice, PlannedStep
from tpuctl.operations.planning.row_marks import excess, mark_rows
from tpuctl.operations.planning.run_cost import SavedState, SpotAssumptions, run_cost
from tpuctl.perfmodel.workload.model_operations import train_operations
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware, slice_hardware
from tpuctl.perfmodel.workload.transformer import Transformer, count_parameters

MOST_TRIED_SLICES = (2, 4, 8, 16, 32, 64)
"""Numbers of slices that are tried for a model that one slice does not hold."""


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """What a job's steps took on its slices, and what the model says of them, in seconds."""

    job_id: str
    accelerator_type: str
    slices: int
    steps: int
    measured_s: float
    modelled_s: float

    @property
    def ratio(self) -> float:
        """By what every modelled step is multiplied."""
        return self.measured_s / self.modelled_s


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """The rows of a plan, in the order of generations and sizes, and what they are made with."""

    spec: TrainPlanSpec
    model: Transformer
    rows: tuple[PlannedSlice, ...]
    assumed: SpotAssumptions
    calibration: MeasuredStep | None = None

    @property
    def chosen(self) -> PlannedSlice:
        """The row that advice is about: the knee, else the cheapest, else the fastest."""
        possible = [row for row in self.rows if row.is_possible]
        for mark in (Mark.KNEE, Mark.CHEAPEST, Mark.FASTEST):
            for row in possible:
                if mark in row.marks:
                    return row
        return min(possible, key=lambda row: row.cost.days if row.cost else math.inf)


class RowPlanner:
    """What all rows of a plan share; plans one at a time."""

    def __init__(
        self,
        spec: TrainPlanSpec,
        *,
        assumed: SpotAssumptions,
        ratio: float = 1.0,
        models: StepModels,
    ) -> None:
        """`ratio` is what measured steps took over modelled ones."""
        self.spec = spec
        self.model = transformer(spec.model)
        self.parameters = count_parameters(self.model)
        self.operations = train_operations(self.model, spec.sequence_tokens)
        self._assumed = assumed
        self._ratio = ratio
        self._models = models

    @property
    def run_operations(self) -> float:
        """Six for an active parameter and token, of the whole run."""
        return 6.0 * self.parameters.active * self.spec.tokens

    def row(self, where: ComparedSlice) -> PlannedSlice:
        """The best way to train on slices of one type, or why there is none."""
        hardware = slice_hardware(where.kind.generation, where.kind.topology)
        devices = hardware.devices * where.slices
        sequences = self.spec.batch_sequences or scaling_rules.default_batch(
            self.run_operations, self.spec.sequence_tokens, devices
        )
        table, fault = self._meshes(hardware, where.slices, sequences)
        usable = float(hardware.device.usable_bytes)
        row = PlannedSlice(where, Fit.NO, fault, sequences, usable, devices)
        if fault:
            return row
        run = run_of(self.spec, sequences)
        choice = best_step(
            hardware, self.model, run, table, remat=self.spec.remat, models=self._models
        )
        row = replace(row, fit=choice.fit, usable_bytes=choice.usable_bytes)
        if choice.step is None:
            needed = f"{size_text(choice.needed_bytes)} of {size_text(choice.usable_bytes)}"
            return replace(row, why=f"needs {needed} a device", needed_bytes=choice.needed_bytes)
        row = replace(row, needed_bytes=choice.needed_bytes)
        return self._timed(row, scaled_step(choice.step, self._ratio), hardware)

    def bounded(self, row: PlannedSlice) -> PlannedSlice:
        """The row with the bounds of its batch; the row itself where nothing fits."""
        if row.step is None:
            return row
        hardware = slice_hardware(row.where.kind.generation, row.where.kind.topology)
        run = run_of(self.spec, row.batch_sequences)
        bounds = batch_bounds(hardware, self.model, run, row.step, self._models)
        return replace(
            row,
            least_compute_bound_batch=bounds.least_compute_bound,
            largest_batch=bounds.largest,
        )

    def _timed(self, row: PlannedSlice, step: PlannedStep, hardware: SliceHardware) -> PlannedSlice:
        """The row with its step, and what the whole run takes and costs."""
        tokens = row.batch_sequences * self.spec.sequence_tokens
        peak = row.devices * hardware.device.bf16_flops
        return replace(
            row,
            step=step,
            tokens_per_s=tokens / step.step_s,
            mfu=self.operations * tokens / step.step_s / peak,
            cost=run_cost(row.where, step, self.spec.tokens / tokens, self._state(), self._assumed),
        )

    def _state(self) -> SavedState:
        run = run_of(self.spec, 1)
        return SavedState(float(self.parameters.total) * (run.weight_bytes + run.moment_bytes))

    def _meshes(
        self, hardware: SliceHardware, slices: int, sequences: int
    ) -> tuple[MeshTable, str]:
        """The meshes that are tried, or what is wrong with the one that was given."""
        sides = sides_of(self.model, self.spec.sequence_tokens)
        if not self.spec.mesh:
            found = mesh_choices(sides, hardware.devices, slices, sequences)
            devices = hardware.devices * slices
            cut = f"{count_text(sequences, 'sequence')} over {count_text(devices, 'device')}"
            return found, "" if found.meshes else f"no mesh cuts a batch of {cut}"
        mesh = filled_mesh(self.spec.mesh, hardware.devices, slices)
        if mesh is None:
            each = count_text(hardware.devices, "device")
            apart = f"{count_text(slices, 'slice')} of {each}" if slices > 1 else each
            return mesh_table(()), f"mesh {mesh_text(self.spec.mesh)} does not fill {apart}"
        fault = mesh_fault(mesh, sides, sequences)
        return mesh_table((mesh,)), fault or ""


def scaled_step(step: PlannedStep, ratio: float) -> PlannedStep:
    """The step with all its times multiplied."""
    if ratio == 1.0:
        return step
    return replace(
        step,
        step_s=step.step_s * ratio,
        step_low_s=step.step_low_s * ratio,
        step_high_s=step.step_high_s * ratio,
        terms={name: term * ratio for name, term in step.terms.items()},
        hidden={name: term * ratio for name, term in step.hidden.items()},
    )


def plan_training(
    spec: TrainPlanSpec,
    book: PriceBook,
    now_s: float,
    *,
    calibration: MeasuredStep | None = None,
    are_all_bounded: bool = False,
    models: StepModels | None = None,
) -> TrainingPlan:
    """Plan a run on every slice that was asked for, with the prices of a moment (Unix time).

    The bounds of the batch are found for the marked rows, or for all of them.
    Raises UsageError (a name, a mesh), NotFoundError (no such slice in the zone) and
    PreconditionError for a model that fits on none of them.
    """
    every_s = spec.slices.preempted_every_s
    assumed = SpotAssumptions(preempted_every_s=every_s) if every_s else SpotAssumptions()
    planner = RowPlanner(
        spec,
        assumed=assumed,
        ratio=calibration.ratio if calibration else 1.0,
        models=models or StepModels(),
    )
    rows = [planner.row(where) for where in compared_slices(spec.slices, book, now_s)]
    if not any(row.is_possible for row in rows):
        raise _nowhere_error(planner, rows, book, now_s)
    marked = mark_rows(rows, spec.limits, is_spot=spec.slices.is_spot)
    bounded = [
        planner.bounded(row) if row.marks or are_all_bounded or spec.slices.types else row
        for row in marked
    ]
    return TrainingPlan(spec, planner.model, tuple(bounded), assumed, calibration)


def limits_error(plan: TrainingPlan) -> PreconditionError | None:
    """The error for limits that no slice keeps, with the nearest slice; None where one does."""
    possible = [row for row in plan.rows if row.is_possible]
    if any(row.is_within_limits for row in possible):
        return None
    limits, is_spot = plan.spec.limits, plan.spec.slices.is_spot
    nearest = min(possible, key=lambda row: excess(row.cost, limits, is_spot=is_spot))
    return PreconditionError(
        "no slice keeps the limits",
        hint=f"the nearest is {nearest.where.text}, which {nearest.why}",
    )


def _nowhere_error(
    planner: RowPlanner, rows: Sequence[PlannedSlice], book: PriceBook, now_s: float
) -> UsageError | PreconditionError:
    """The error for a run that no row takes, with the nearest slices that would."""
    counted = count_text(len(rows), "slice")
    held = [row for row in rows if row.needed_bytes is not None]
    name = planner.spec.model.name or "the model"
    if not held:
        row = rows[-1]
        where = row.where.kind.name if len(rows) == 1 else f"none of {counted}"
        verb = "does not take the run" if len(rows) == 1 else "takes the run"
        return UsageError(
            f"{where} {verb}: {row.why}", hint="leave --mesh or --batch out, and they are chosen"
        )
    nearest = min(held, key=lambda row: (row.needed_bytes or 0.0) / row.usable_bytes)
    text = f"{nearest.where.text} {nearest.why}"
    where = "does not fit" if len(rows) == 1 else f"fits on none of {counted}"
    fitting = _nearest_that_fits(planner, nearest.where, book, now_s)
    hint = (
        f"{fitting.where.text} would do: add {_flags(fitting.where)}"
        if fitting
        else "choose a smaller model, a shorter --seq, --remat full or --optimizer adafactor"
    )
    return PreconditionError(f"{name} {where}: {text}", hint=hint)


def _nearest_that_fits(
    planner: RowPlanner, refused: ComparedSlice, book: PriceBook, now_s: float
) -> PlannedSlice | None:
    """The slice of fewest chips that fits, of any type in the zone; else several of the largest."""
    choice = replace(planner.spec.slices, types=(), generations=())
    every = offered_slices(choice, book, now_s)
    for where in sorted(every, key=lambda each: each.chips):
        row = planner.row(where)
        if row.fit is Fit.YES:
            return row
    biggest = max(every, key=lambda each: each.chips, default=refused)
    for slices in (
        MOST_TRIED_SLICES if catalog.generation(biggest.kind.generation).multislice else ()
    ):
        row = planner.row(replace(biggest, slices=slices))
        if row.fit is Fit.YES:
            return row
    return None


def _flags(where: ComparedSlice) -> str:
    several = f" --num-slices {where.slices}" if where.slices > 1 else ""
    return f"-t {where.kind.name}{several}"
