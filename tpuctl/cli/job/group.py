"""`tpuctl job ...`: programs on every worker of a slice."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.job import bundle, log, submit
from tpuctl.cli.job.details import JobDetails, job_document, show_jobs
from tpuctl.cli.job.watch_job import (
    add_cancel_note,
    add_unsupervised_note,
    cache_open_jobs,
    wait_until_settled,
    warn_if_unsupervised,
    warn_of_other_owners,
)
from tpuctl.cli.shell import slice_options as slices
from tpuctl.cli.shell.options import JobName, Noun
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import PartialFailureError, TpuctlError
from tpuctl.models.duration import parse_duration
from tpuctl.models.job import JobRecord, JobState

if TYPE_CHECKING:
    from tpuctl.store import Store

ENDED_SHOWN = 20
"""As many as `gh run list` shows: a job that ended long ago is not in the way."""

app = Noun("Run programs on every worker of a slice, and bring them back.")

app.verb("submit")(submit.submit)


@app.verb("list")
def list_jobs(
    ctx: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help=f"Also jobs that ended before the last {ENDED_SHOWN}.")
    ] = False,
) -> None:
    """List the jobs of the context's bucket, the newest first: open ones, and the last that ended.

    How many were left out is told on stderr; -o json, yaml and name leave out none.
    """
    runtime = ctx.ensure_object(Runtime)
    if runtime.has_no_local_state():
        show_jobs(runtime.output, [])
        return
    from tpuctl.jobs import client

    store = runtime.store()
    jobs = client.list_jobs(store, lambda error: runtime.output.warn(str(error)))
    shown = recent_jobs(jobs) if runtime.output.is_table and not everything else jobs
    show_jobs(runtime.output, shown, title=f"jobs of {runtime.context.name}")
    if len(shown) < len(jobs):
        runtime.output.note(
            f"{len(jobs) - len(shown)} jobs that ended earlier: tpuctl job list --all"
        )
    cache_open_jobs(runtime, jobs, warn_if_unsupervised(runtime, store, jobs))


def recent_jobs(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Every job that is not settled, and the newest of those that are; in the same order."""
    settled = [job.job_id for job in jobs if job.is_settled]
    hidden = frozenset(settled[ENDED_SHOWN:])
    return [job for job in jobs if job.job_id not in hidden]


@app.verb("describe")
def describe(ctx: typer.Context, name: JobName) -> None:
    """Show one job: why it waits or what it does next, its attempts, who failed first, its cost."""
    from tpuctl.cli.job import describe_view
    from tpuctl.cli.shell import detail_view
    from tpuctl.jobs import client

    runtime = ctx.ensure_object(Runtime)
    store = runtime.store()
    found = load_details(runtime, store, client.describe(store, name))
    if runtime.output.is_table:
        detail_view.print_details(runtime.output, describe_view.job_view(found))
    else:
        whole = job_document(found)
        runtime.output.item(whole, {key: itemgetter(key) for key in whole})
    warn_if_unsupervised(runtime, store, [found.job])


def load_details(runtime: Runtime, store: "Store", job: JobRecord) -> JobDetails:
    """A job, who looks after it, and the stacks that lie in the bucket."""
    from tpuctl.errors import DamagedStateError
    from tpuctl.jobs import client
    from tpuctl.jobs.record import record_store

    try:
        supervisor = client.supervisor_of(store, runtime.home, runtime.context.name, job.job_id)
    except DamagedStateError as error:
        runtime.output.warn(str(error))
        supervisor = None
    bucket = runtime.context.bucket
    stacks = [
        f"gs://{bucket}/{entry.key}"
        for entry in store.list(f"{record_store.job_directory(job.job_id)}/stacks/")
    ]
    return JobDetails(job, runtime.now(), supervisor, bucket, stacks)


app.verb("logs")(log.logs)
app.verb("bundle")(bundle.bundle)


@app.verb("wait")
def wait(ctx: typer.Context, name: JobName, timeout: slices.Timeout = None) -> None:
    """Wait until a job has ended and its slices are gone; fails when the job failed."""
    from tpuctl.jobs import client

    runtime = ctx.ensure_object(Runtime)
    store = runtime.store()
    job = client.describe(store, name)
    add_cancel_note(runtime, job)
    job = wait_until_settled(runtime, store, job, parse_duration(timeout) if timeout else None)
    show_jobs(runtime.output, [job])
    if error := client.error_of(job):
        raise error


@app.verb("cancel")
def cancel(
    ctx: typer.Context,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="The jobs: their ids, or their names.")
    ],
) -> None:
    """End jobs: their programs get SIGTERM, their own slices are torn down."""
    from tpuctl.jobs import client

    runtime = ctx.ensure_object(Runtime)
    submit.refuse_other_project(runtime)
    store = runtime.store()
    jobs = {job.job_id: job for job in (client.describe(store, name) for name in names)}
    over = {job_id: job.state for job_id, job in jobs.items() if job.is_ended}
    troubles: dict[str, TpuctlError] = {}
    for job_id in jobs:
        try:
            jobs[job_id] = client.cancel(store, job_id, runtime.now())
        except TpuctlError as error:
            troubles[job_id] = error
    if not all(job.is_settled for job in jobs.values()):
        submit.start_supervisor(runtime)
    asked = [job for job in jobs.values() if job.job_id not in troubles]
    for job in asked:
        runtime.output.note(_cancel_text(job, was=over.get(job.job_id)))
    show_jobs(runtime.output, asked)
    warn_of_other_owners(runtime, store, asked)
    raise_errors(troubles, len(jobs))


@app.verb("retry")
def retry(ctx: typer.Context, name: JobName) -> None:
    """Let a job that failed or was cancelled begin anew, and see that a supervisor runs."""
    from tpuctl.jobs import client
    from tpuctl.jobs.record.job_retry import reopen_record

    runtime = ctx.ensure_object(Runtime)
    submit.refuse_other_project(runtime)
    store = runtime.store()
    job = client.describe(store, name)
    if not submit.needs_environment_values(job):
        reopen_record(job, runtime.now())  # what forbids it comes before what it would need
    submit.check_before_retry(runtime, job)
    if not submit.needs_environment_values(job):
        job = client.reopen(store, job.job_id, runtime.now())
        add_cancel_note(runtime, job)
        add_unsupervised_note(runtime)
        runtime.output.note(f"job {job.job_id} begins anew: tpuctl job logs -f {job.job_id}")
    submit.hand_to_supervisor(runtime, job)
    show_jobs(runtime.output, [job])
    warn_of_other_owners(runtime, store, [job])


def _cancel_text(job: JobRecord, was: JobState | None) -> str:
    """What becomes of a job that somebody wants to end."""
    if was is None and not job.is_ended:
        return f"job {job.job_id} is being cancelled: tpuctl job wait {job.job_id}"
    leaving = "" if job.is_settled else "; its slice is being deleted"
    return f"job {job.job_id} has ended already, {job.state}: nothing to cancel{leaving}"


def raise_errors(troubles: Mapping[str, TpuctlError], asked: int) -> None:
    """The one error there is, or how many of several there are."""
    if not troubles:
        return
    job_id, first = next(iter(troubles.items()))
    if asked == 1:
        raise first
    raise PartialFailureError(
        f"{len(troubles)} of {asked} jobs were not cancelled: {job_id}: {first}",
        hint=f"run: tpuctl job cancel {' '.join(troubles)}",
    )
