"""The whole story on one machine: every step is a command that a user could have typed."""

import json
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tpuctl.config import Context
from tpuctl.errors import JobFailedError, LockedError
from tpuctl.jobs import client
from tpuctl.jobs.interfaces import SYSTEM_CLOCKS, Backends
from tpuctl.jobs.logs.log_stream import follow
from tpuctl.jobs.spec import job_file
from tpuctl.models.job import AttemptOutcome, JobRecord, JobSpec
from tpuctl.models.job_log import LogLine
from tpuctl.models.node import Provisioning
from tpuctl.operations.local import local_cloud
from tpuctl.operations.slices import cost

LOCAL_CLOUD = "quickstart"
SLICE = "digits"
DATA = "data"
RUNS = "runs/digits"
EARLIEST_SAVE = 2
"""The slice is taken after so many saves at the earliest, so that there is one to come back to."""

Command = Callable[[Sequence[str]], None]
"""Runs one tpuctl command line and raises when it fails."""


@dataclass(frozen=True, slots=True)
class QuickstartPlan:
    """What the quickstart is going to do; the seed decides all of it."""

    template: Path
    spec: JobSpec
    steps: int
    save_every: int
    preempt_step: int


@dataclass(slots=True)
class QuickstartState:
    """What the quickstart has done so far."""

    began_s: float
    slice_ready_s: float = 0.0
    preemptions: int = 0
    jobs: list[JobRecord] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class QuickstartSummary:
    """The figures of a finished quickstart; the field names are the keys of its JSON."""

    accuracy: float
    steps: int
    resume_step: int
    lost_steps: int
    preemptions: int
    wall_s: float
    chip_time_s: float
    cost_usd: float
    price_date: str
    confusion: list[list[int]]


def remove_old_simulator(home: Path) -> None:
    """Make sure that the quickstart's own simulator is new. Raises LockedError."""
    if local_cloud.endpoint_line(home, LOCAL_CLOUD):
        raise LockedError(
            "a quickstart is running, or was kept",
            hint=f"run: tpuctl local down --name {LOCAL_CLOUD} --delete-state",
        )
    local_cloud.remove(home, LOCAL_CLOUD)


def load_plan(template: Path, bucket: str, environ: Mapping[str, str], seed: int) -> QuickstartPlan:
    """The plan for the job file of a template."""
    spec = job_file.load(template / "job.yaml", bucket=bucket, environ=environ)
    return draw_plan(template, spec, seed)


def draw_plan(template: Path, spec: JobSpec, seed: int) -> QuickstartPlan:
    """Draw the step at which the slice is taken: well after a save, well before the next."""
    steps, save_every = int(spec.envs["STEPS"]), int(spec.envs["SAVE_EVERY"])
    saves = random.Random(seed).randrange(EARLIEST_SAVE, steps // save_every - 1)
    within = random.Random(seed + 1).randrange(save_every // 3, 2 * save_every // 3)
    return QuickstartPlan(template, spec, steps, save_every, saves * save_every + within)


def prepare(
    run: Command, planned: QuickstartPlan, context: Context, story: QuickstartState
) -> None:
    """Create a slice through a queued resource, and push the data to the bucket."""
    run(["qr", "create", SLICE, "-t", str(planned.spec.resources.accelerators), "--spot"])
    run(["qr", "wait", SLICE])
    story.slice_ready_s = time.time()
    digits = planned.template / "data" / "digits.csv.gz"
    run(["data", "push", str(digits), f"gs://{context.bucket}/{DATA}/"])


async def train(
    run: Command, planned: QuickstartPlan, outside: Backends, story: QuickstartState
) -> AsyncIterator[JobRecord | LogLine]:
    """Follow the job; take its slice away at the drawn step; see it come back and finish."""
    run(["job", "submit", str(planned.template / "job.yaml"), "--node", SLICE])
    job = client.describe(outside.store, planned.spec.name)
    async for item in follow(outside, job.job_id, clocks=SYSTEM_CLOCKS):
        yield item
        if logged_step(item) >= planned.preempt_step and not story.preemptions:
            story.preemptions += 1
            run(["local", "preempt", SLICE, "--no-notice"])
    story.jobs.append(_require_succeeded(outside, job.job_id))


def predict(
    run: Command, planned: QuickstartPlan, outside: Backends, story: QuickstartState
) -> Mapping[str, Any]:
    """Classify the held-back digits with the last checkpoint; returns the program's figures."""
    run(["checkpoint", "list", str(planned.spec.checkpoints and planned.spec.checkpoints.dir)])
    run(["run", str(planned.template / "predict.yaml")])
    newest = client.list_jobs(outside.store)[0]
    story.jobs.append(_require_succeeded(outside, newest.job_id))
    evaluation: Mapping[str, Any] = json.loads(outside.store.get_range(f"{RUNS}/evaluation.json"))
    return evaluation


def tear_down(run: Command, outside: Backends, story: QuickstartState) -> None:
    """Delete what is left, and see that nothing is."""
    for job in story.jobs:
        run(["job", "wait", job.job_id])
    story.jobs[:] = [client.describe(outside.store, job.job_id) for job in story.jobs]
    run(["qr", "delete", SLICE, "--force", "--yes"])
    run(["node", "list"])


def summary(
    story: QuickstartState, evaluation: Mapping[str, Any], planned: QuickstartPlan, zone: str
) -> QuickstartSummary:
    """The figures of all steps together."""
    training = story.jobs[0]
    outcomes = [attempt.outcome for attempt in training.attempts]
    usd, price_date = _cost(story, zone)
    return QuickstartSummary(
        accuracy=round(float(evaluation["accuracy"]), 4),
        steps=planned.steps,
        resume_step=training.attempts[-1].resume_step,
        lost_steps=sum(
            max(0, before.last_step - after.resume_step)
            for before, after in pairwise(training.attempts)
        ),
        preemptions=outcomes.count(AttemptOutcome.PREEMPTED),
        wall_s=round(time.time() - story.began_s, 1),
        chip_time_s=round(float(evaluation["chip_time_s"]), 6),
        cost_usd=round(usd, 4),
        price_date=price_date,
        confusion=evaluation["confusion"],
    )


def _cost(story: QuickstartState, zone: str) -> tuple[float, str]:
    """List price of every second in which a slice was READY, and the date of the price."""
    first = story.jobs[0]
    taken_s = first.attempts[0].ended_s or story.slice_ready_s
    spans = [(first.accelerator_type, taken_s - story.slice_ready_s)]
    for job in story.jobs:
        for attempt in job.attempts:
            if attempt.owned and attempt.ready_s:
                ended_s = attempt.deleted_s or job.ended_s or attempt.ready_s
                spans.append((job.accelerator_type, ended_s - attempt.ready_s))
    prices = [
        (price, ready_s)
        for kind, ready_s in spans
        if (price := cost.hourly_price(kind, zone, Provisioning.SPOT))
    ]
    usd = sum(price.usd_per_hour * ready_s / cost.SECONDS_AN_HOUR for price, ready_s in prices)
    return usd, prices[0][0].as_of


def logged_step(item: JobRecord | LogLine) -> int:
    """The step that worker 0 has just logged; 0 for any other line."""
    if not isinstance(item, LogLine) or item.worker_id or not item.text.startswith("step="):
        return 0
    return int(item.text.split()[0].removeprefix("step="))


def _require_succeeded(outside: Backends, job_id: str) -> JobRecord:
    job = client.describe(outside.store, job_id)
    if error := client.error_of(job):
        raise JobFailedError(str(error), hint=error.hint)
    return job
