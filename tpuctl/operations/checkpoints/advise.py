"""What saves and preemptions have cost a job, and which interval between saves loses least."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tpuctl.errors import PreconditionError
from tpuctl.jobs import client
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord
from tpuctl.operations.checkpoints import interval
from tpuctl.operations.checkpoints.step_view import RESTORABLE_STATES, StepView
from tpuctl.operations.checkpoints.survey import StoreOpener, job_directory, survey_directory
from tpuctl.operations.slices import cost, spending

_LEAST_S = 0.001
"""What is less is told as nothing: the records count milliseconds."""
INTERRUPTED = frozenset({AttemptOutcome.PREEMPTED, AttemptOutcome.LOST})


@dataclass(frozen=True)
class SaveMeasurements:
    """Medians over the steps of a directory; all times in seconds."""

    saves: int
    """How many of them are still there."""
    save_s: float
    """From the call of `save` until the step was durable."""
    blocked_s: float | None
    """How long the program was kept waiting, of that; None where it is not known."""
    every: float | None
    """Steps between two saves; None while there are not two of one attempt."""
    interval_s: float | None

    @property
    def cost_s(self) -> float:
        """The most that a save costs the program: the wait, and the steps that are slowed."""
        if self.blocked_s is None:
            return self.save_s
        return interval.cost_s(self.save_s, self.blocked_s)

    @property
    def step_s(self) -> float | None:
        """Seconds from one training step to the next; None when it is not known."""
        return self.interval_s / self.every if self.interval_s and self.every else None


@dataclass(frozen=True)
class PreemptionLosses:
    """What the attempts of a job lost to preemptions; all times in seconds."""

    preemptions: int
    active_s: float
    """For how long it had slices that were READY."""
    restart_s: float
    """From READY until the program began, on average."""
    redone_steps: int
    """Steps that a later attempt did again."""

    @property
    def mean_s(self) -> float:
        """The mean time between preemptions; without one, as if there had been one."""
        return self.active_s / max(1, self.preemptions)


@dataclass(frozen=True)
class LostTime:
    """The part of a job's active time that is not progress: share (0 to 1), hours and USD."""

    share: float
    hours: float
    usd: float | None


@dataclass(frozen=True)
class Advice:
    """What was measured, and what follows from it; times in seconds.

    The `best_*` that count steps are None when it is not known how long a step takes.
    """

    job: JobRecord
    saving: SaveMeasurements
    losses: PreemptionLosses
    young_s: float
    daly_s: float
    best_s: float
    """Daly's, and not shorter than a step, or than a save takes: there is one at a time."""
    best_every: int | None
    now: LostTime | None
    best: LostTime
    redone_hours: float | None


def advise_job(name: str, open_bucket: StoreOpener, now_s: float) -> tuple[Advice, str]:
    """Measure the saves and preemptions of the job of that id or name, up to now (Unix time).

    Returns the advice, and the URL of the directory that it was measured in.
    Raises NotFoundError, UsageError when it saves to no bucket, PreconditionError while too little
    is known.
    """
    job = client.describe(open_bucket(), name)
    survey = survey_directory(job_directory(job, open_bucket))
    views = [view for view in survey.views if view.state in RESTORABLE_STATES]
    return advise_interval(job, views, now_s), survey.place.url


def advise_interval(job: JobRecord, steps: Sequence[StepView], now_s: float) -> Advice:
    """Compute the interval that loses least, from a job and its steps, oldest first.

    `now_s` is Unix time. Raises PreconditionError when no save was measured, or the job had no
    slice.
    """
    own = [each for each in steps if each.job == job.job_id]
    measured = measure_saves(own or steps)  # an earlier job may have saved there, of another size
    losses = measure_losses(job, now_s)
    if measured is None:
        raise PreconditionError(
            f"no step of job {job.job_id} says how long its save took",
            hint=f"save with tpuctl.checkpoint, then: tpuctl checkpoint advise {job.job_id}",
        )
    if not losses.active_s:
        raise PreconditionError(
            f"job {job.job_id} has not had a slice yet", hint=f"run: tpuctl job wait {job.job_id}"
        )
    daly = interval.daly_s(measured.cost_s, losses.mean_s)
    step_s = measured.step_s
    best_s = max(daly, measured.save_s, step_s or 0.0)
    return Advice(
        job=job,
        saving=measured,
        losses=losses,
        young_s=interval.young_s(measured.cost_s, losses.mean_s),
        daly_s=daly,
        best_s=best_s,
        best_every=max(1, round(best_s / step_s)) if step_s else None,
        now=_lost_time(job, measured, losses, measured.interval_s) if measured.interval_s else None,
        best=_lost_time(job, measured, losses, best_s),
        redone_hours=losses.redone_steps * step_s / cost.SECONDS_AN_HOUR if step_s else None,
    )


def measure_saves(steps: Sequence[StepView]) -> SaveMeasurements | None:
    """Measure the saves of steps, oldest first; None when no step says how long its save took."""
    took = [each.save_s for each in steps if each.save_s is not None]
    waits = [each.blocked_s for each in steps if each.blocked_s is not None]
    if not took:
        return None
    gaps = [gap for earlier, later in pairwise(steps) if (gap := _gap(earlier, later))]
    return SaveMeasurements(
        saves=len(took),
        save_s=max(median(took), _LEAST_S),
        blocked_s=median(waits) if waits else None,
        every=median(count for count, _ in gaps) if gaps else None,
        interval_s=median(seconds for _, seconds in gaps) if gaps else None,
    )


def _gap(earlier: StepView, later: StepView) -> tuple[int, float] | None:
    """Steps and seconds between two saves of one run."""
    if earlier.fence != later.fence or earlier.step is None or later.step is None:
        return None
    if earlier.committed_s is None or later.committed_s is None:
        return None
    steps, seconds = later.step - earlier.step, later.committed_s - earlier.committed_s
    return (steps, seconds) if steps > 0 and seconds > 0 else None


def measure_losses(job: JobRecord, now_s: float) -> PreemptionLosses:
    """Measure preemptions, active time and repeated steps in the attempts of a job."""
    waits = [
        each.started_s - each.ready_s
        for each in job.attempts
        if each.started_s is not None and each.ready_s is not None
    ]
    redone = [
        max(0, earlier.last_step - later.resume_step)
        for earlier, later in pairwise(job.attempts)
        if later.started_s is not None
    ]
    return PreemptionLosses(
        preemptions=sum(each.outcome in INTERRUPTED for each in job.attempts),
        active_s=sum(_active_s(each, now_s) for each in job.attempts),
        restart_s=sum(waits) / len(waits) if waits else 0.0,
        redone_steps=sum(redone),
    )


def _active_s(attempt: Attempt, now_s: float) -> float:
    if attempt.ready_s is None:
        return 0.0
    end_s = now_s if attempt.ended_s is None else attempt.ended_s
    return max(0.0, end_s - attempt.ready_s)


def _lost_time(
    job: JobRecord, measured: SaveMeasurements, losses: PreemptionLosses, interval_s: float
) -> LostTime:
    """A save that is under way when the slice goes is lost with the steps behind it."""
    again_s = losses.restart_s + measured.save_s
    share = interval.lost_share(interval_s, measured.cost_s, losses.mean_s, again_s)
    hours = share * losses.active_s / cost.SECONDS_AN_HOUR
    price = spending.usd_per_hour(job)
    return LostTime(share, hours, None if price is None else hours * price)
