"""What a job's steps took, beside what the model says of them: calibrates a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tpuctl import catalog
from tpuctl.errors import PreconditionError, UsageError
from tpuctl.metrics.goodput.step_table import StepTable
from tpuctl.models.job import Attempt, JobRecord
from tpuctl.models.planning.plan_spec import SliceChoice, TrainPlanSpec
from tpuctl.operations.jobs import queries
from tpuctl.operations.planning.best_step import StepModels
from tpuctl.operations.planning.compared_slices import ComparedSlice
from tpuctl.operations.planning.run_cost import SpotAssumptions
from tpuctl.operations.planning.training_plan import MeasuredStep, RowPlanner

if TYPE_CHECKING:
    from tpuctl.operations.jobs.events import JobRuntime


class StepMean(NamedTuple):
    """The mean step of an attempt without its waits for checkpoints."""

    attempt: Attempt
    steps: int
    seconds: float


def measured_step(
    runtime: JobRuntime, name: str, spec: TrainPlanSpec, models: StepModels | None = None
) -> MeasuredStep:
    """The mean step of the job of that id or name, and the modelled one on the same slices.

    Raises NotFoundError, UsageError without the batch that it was measured with, and
    PreconditionError where the job has told fewer than two steps or the model does not fit there.
    """
    if spec.batch_sequences is None:
        raise UsageError(
            "a job's measured steps need the batch that they were measured with",
            hint="add --batch SEQUENCES, or --batch-tokens",
        )
    job = queries.find_job(runtime, name)
    return compare_step(job, spec, models or StepModels())


def compare_step(job: JobRecord, spec: TrainPlanSpec, models: StepModels) -> MeasuredStep:
    """As `measured_step`, of a record; raises PreconditionError."""
    mean = longest_mean(job)
    if mean is None:
        raise PreconditionError(
            f"job {job.job_id} has not told two steps yet",
            hint=f"run: tpuctl job metrics {job.job_id}",
        )
    kind = catalog.accelerator_type(mean.attempt.accelerator_type or job.accelerator_type)
    where = ComparedSlice(kind, mean.attempt.zone, mean.attempt.slices, None, None, None)
    its_own = replace(spec, slices=SliceChoice(num_slices=where.slices))
    row = RowPlanner(its_own, assumed=SpotAssumptions(), models=models).row(where)
    if row.step is None:
        raise PreconditionError(
            f"the plan does not fit the slice of job {job.job_id}: {kind.name} {row.why}",
            hint="give the --model, --seq, --batch and --mesh that the job ran with",
        )
    return MeasuredStep(
        job_id=job.job_id,
        accelerator_type=kind.name,
        slices=where.slices,
        steps=mean.steps,
        measured_s=mean.seconds,
        modelled_s=row.step.step_s,
    )


def longest_mean(job: JobRecord) -> StepMean | None:
    """The mean step of the attempt that made most steps; None where none told two."""
    means = [mean for attempt in job.attempts if (mean := _mean_of(attempt))]
    return max(means, key=lambda mean: mean.steps, default=None)


def _mean_of(attempt: Attempt) -> StepMean | None:
    table = StepTable.of(attempt)
    if table is None or attempt.started_s is None:
        return None
    (first, first_s), (last, last_s) = table.rows[0], table.rows[-1]
    waits = [
        (attempt.started_s + wait.after_s, wait.waited_s)
        for wait in sorted(attempt.save_waits, key=lambda each: each.after_s)
    ]
    before = max((waited for at, waited in waits if at <= first_s), default=0.0)
    until = max((waited for at, waited in waits if at <= last_s), default=before)
    seconds = (last_s - first_s - (until - before)) / (last - first)
    return StepMean(attempt, last - first, seconds) if seconds > 0 else None
