"""`tpuctl job ...`: programs on every worker of a slice."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli import slice_options as slices
from tpuctl.cli.options import Noun
from tpuctl.cli.output import Moment, Usd
from tpuctl.cli.runtime import Runtime
from tpuctl.errors import UsageError
from tpuctl.models.duration import seconds
from tpuctl.models.job import Attempt, JobRecord
from tpuctl.models.node import Provisioning
from tpuctl.operations import cost, lifecycle

if TYPE_CHECKING:
    from tpuctl.jobs.follow import Wanted
    from tpuctl.store import Store

app = Noun("Run programs on every worker of a slice, and bring them back.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The job: its id, or its name.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The job file.")]


def usd_per_hour(job: JobRecord) -> Usd | None:
    """What the job's slice costs now; nothing while it has none that is READY."""
    attempt = job.attempt
    if attempt is None or attempt.ready_s is None or attempt.deleted_s or job.is_settled:
        return None
    kind = Provisioning.SPOT if job.spec.resources.use_spot else Provisioning.ON_DEMAND
    usd = cost.usd_per_hour(job.accelerator_type, job.zone, kind)
    return None if usd is None else Usd(usd)


def step(job: JobRecord) -> int | None:
    """The last step that was seen."""
    return job.attempt.last_step if job.attempt else None


def shown(attempt: Attempt) -> dict[str, object]:
    """What `describe` says of an attempt."""
    return {
        "number": attempt.number,
        "node": attempt.node,
        "outcome": attempt.outcome or attempt.state,
        "resume_step": attempt.resume_step,
        "last_step": attempt.last_step,
        "reason": attempt.reason,
    }


COLUMNS = {
    "id": lambda job: job.job_id,
    "state": lambda job: job.state,
    "attempts": lambda job: len(job.attempts),
    "step": step,
    "accelerator_type": lambda job: job.accelerator_type,
    "zone": lambda job: job.zone,
    "submitted": lambda job: Moment(job.submitted_s),
    "usd_per_hour": usd_per_hour,
    "why": lambda job: job.why,
}
DETAILS = {
    **COLUMNS,
    "owner": lambda job: job.owner,
    "ended": lambda job: Moment(job.ended_s) if job.ended_s else None,
    "attempt_list": lambda job: [shown(one) for one in job.attempts],
}


@app.verb("submit")
def submit(
    ctx: typer.Context,
    file: File,
    node: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run on this slice, and never tear it down."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then follow its log.")] = False,
) -> None:
    """Submit a job; returns when it is in the bucket and a supervisor looks after it."""
    runtime = ctx.ensure_object(Runtime)
    submitted = submit_file(runtime, file, node)
    if not follow:
        runtime.output.items([submitted], COLUMNS)
        return
    follow_to_the_end(runtime, submitted.job_id)


@app.verb("list")
def list_jobs(ctx: typer.Context) -> None:
    """List the jobs of the context's bucket, the newest first."""
    runtime = ctx.ensure_object(Runtime)
    if runtime.nothing_local_yet():
        runtime.output.items([], COLUMNS)
        return
    from tpuctl.jobs import client

    store = runtime.store()
    jobs = client.list_jobs(store, lambda error: runtime.output.warn(str(error)))
    runtime.output.items(jobs, COLUMNS, title=f"jobs of {runtime.context.name}")
    warn_if_unsupervised(runtime, store, jobs)


@app.verb("describe")
def describe(ctx: typer.Context, name: Name) -> None:
    """Show one job: its attempts, and why it waits or what it does next."""
    from tpuctl.jobs import client

    runtime = ctx.ensure_object(Runtime)
    store = runtime.store()
    job = client.describe(store, name)
    runtime.output.item(job, DETAILS)
    warn_if_unsupervised(runtime, store, [job])


@app.verb("logs")
def logs(
    ctx: typer.Context,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it ends.")] = False,
    worker: Annotated[
        str | None, typer.Option(metavar="IDS", help="Only these: 0, 1,4,6 or 1-3.")
    ] = None,
    attempt: Annotated[int | None, typer.Option(metavar="N", help="Only this attempt.")] = None,
) -> None:
    """Print what the job's programs printed, all workers merged by time."""
    from tpuctl.cli.job_log import print_lines
    from tpuctl.jobs import client
    from tpuctl.jobs.follow import Wanted, read
    from tpuctl.operations.fanout import worker_ids

    runtime = ctx.ensure_object(Runtime)
    wanted = Wanted(
        frozenset(worker_ids(worker)) if worker is not None else None,
        frozenset({attempt}) if attempt else None,
    )
    outside = runtime.outside
    job = client.describe(outside.store, name)
    warn_if_unsupervised(runtime, outside.store, [job])
    if follow:
        follow_to_the_end(runtime, job.job_id, wanted)
    else:
        print_lines(runtime, read(outside, job.job_id, wanted))


@app.verb("wait")
def wait(ctx: typer.Context, name: Name, timeout: slices.Timeout = None) -> None:
    """Wait until a job has ended and its slices are gone; fails when the job failed."""
    from tpuctl.jobs import client

    runtime = ctx.ensure_object(Runtime)
    store = runtime.store()
    job = client.describe(store, name)
    warn_if_unsupervised(runtime, store, [job])
    say_how_to_end(runtime, job)
    job = client.wait(
        store,
        job.job_id,
        timeout_s=seconds(timeout) if timeout else None,
        settled=True,
        monotonic=time.monotonic,
        sleep=runtime.sleep,
    )
    runtime.output.items([job], COLUMNS)
    if error := client.error_of(job):
        raise error


@app.verb("cancel")
def cancel(ctx: typer.Context, name: Name) -> None:
    """End a job: its programs get SIGTERM, its own slice is torn down."""
    from tpuctl.jobs import client

    runtime = ctx.ensure_object(Runtime)
    refuse_other_project(runtime)
    outside = runtime.outside
    job = client.describe(outside.store, name)
    job = client.cancel(outside.store, job.job_id, runtime.now())
    _supervised(runtime)
    runtime.output.items([job], COLUMNS)


def submit_file(runtime: Runtime, file: Path, node_name: str | None) -> JobRecord:
    """Check a job file, put the job into the bucket, and see that a supervisor runs."""
    from tpuctl.cli.local import provided
    from tpuctl.jobs import file as job_file
    from tpuctl.jobs import submit as submission

    refuse_other_project(runtime)
    context = runtime.context
    spec = job_file.load(file, bucket=context.bucket, environ=runtime.environ)
    if spec.checkpoints:  # a bucket that is not there would be noticed on a slice that is paid
        next(iter(runtime.store(spec.checkpoints.dir).list()), None)
    node = lifecycle.find(runtime.tpu, context.zone, node_name) if node_name else None
    submitted = submission.submit(
        spec,
        runtime.outside,
        owner=submission.default_owner(),
        provides=provided(runtime, context),
        now_s=runtime.now(),
        node=node,
    )
    _supervised(runtime)
    runtime.output.note(
        f"job {submitted.job_id} is submitted: tpuctl job logs -f {submitted.job_id}"
    )
    return submitted


def refuse_other_project(runtime: Runtime) -> None:
    """A supervisor is told the context and nothing else."""
    if runtime.shared.project or runtime.environ.get("TPUCTL_PROJECT"):
        raise UsageError(
            "a job runs in the project of its context",
            hint="leave out --project and TPUCTL_PROJECT; make a context for that project",
        )


def follow_to_the_end(runtime: Runtime, job_id: str, wanted: "Wanted | None" = None) -> None:
    """Print the log until the job has ended; raises its error when it failed."""
    from tpuctl.cli.job_log import follow
    from tpuctl.jobs import client
    from tpuctl.jobs.follow import ALL

    outside = runtime.outside
    say_how_to_end(runtime, client.describe(outside.store, job_id))
    follow(runtime, outside, job_id, wanted or ALL)
    if error := client.error_of(client.describe(outside.store, job_id)):
        raise error


def warn_if_unsupervised(runtime: Runtime, store: "Store", jobs: list[JobRecord]) -> None:
    """Say so when nobody looks after a job that is not over, and how to change that."""
    from tpuctl.jobs import client

    open_ids = {job.job_id for job in jobs if not job.is_settled}
    if not open_ids:
        return
    found = open_ids & set(client.unsupervised(store, runtime.home, runtime.context.name))
    if found:
        runtime.output.warn(
            f"no supervisor looks after {', '.join(sorted(found))}; run: tpuctl supervisor run"
        )


def say_how_to_end(runtime: Runtime, job: JobRecord) -> None:
    """What to print when the person stops watching: the job is detached and goes on."""
    if job.is_ended:
        return
    kind = Provisioning.SPOT if job.spec.resources.use_spot else Provisioning.ON_DEMAND
    usd = cost.usd_per_hour(job.accelerator_type, job.zone, kind)
    price = f" at {Usd(usd)} USD/h" if usd is not None else ""
    end = f"tpuctl job cancel {job.job_id}"
    runtime.goes_on.append(f"job {job.job_id} goes on{price}; end it with: {end}")


def _supervised(runtime: Runtime) -> None:
    from tpuctl.jobs import seat, submit

    name = runtime.context.name
    submit.ensure_supervisor(runtime.home, name, seat.argv(sys.executable, name))
