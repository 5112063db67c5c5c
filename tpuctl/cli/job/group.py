"""`tpuctl job ...`: programs on every worker of a slice."""

from typing import Annotated

import typer

from tpuctl.byte_size import count_text
from tpuctl.cli.shell.options import JobName, Noun, Timeout, Yes, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.list_verb import ListVerb
from tpuctl.cli.shell.tables.listing import declare_keys

app = Noun("Run programs on every worker of a slice.")

app.verb_in("submit", "job.submit:submit")
app.verb_in("templates", "job.files.templates:list_templates")
app.verb_in("init", "job.files.templates:init")
app.verb_in("lint", "job.files.lint:lint")


LIST_KEYS = (
    "id", "state", "attempts", "step", "accelerator_type", "zone", "submitted", "usd_per_hour",
    "why", "owner", "usd_so_far",
)  # fmt: skip
"""Those of `details.columns`, whose modules take too long to load for one who presses TAB."""


@app.verb("list", ListVerb)
@declare_keys(lambda: LIST_KEYS)
def list_jobs(
    runtime: Runtime,
    everything: Annotated[
        bool, typer.Option("--all", help="Also jobs that ended long ago.")
    ] = False,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE",
            help="Only jobs in this state; may be repeated.",
            autocompletion=completed_by("job state"),
        ),
    ] = None,
    owner: Annotated[
        str | None, typer.Option(metavar="WHO", help="Only jobs of USER@HOST, or of USER.")
    ] = None,
) -> None:
    """List jobs, the newest first.

    Open jobs of the context's bucket, and those that ended last.

    stderr says how many are left out; -o json, yaml and name list all.
    """
    from tpuctl.cli.job.details import known_name, show_jobs
    from tpuctl.cli.shell import job_notices
    from tpuctl.operations.jobs import queries, supervision

    queries.choose_jobs([], state or (), owner)
    if runtime.has_no_local_state():
        show_jobs(runtime.output, [])
        return

    every = job_notices.result_of(runtime, queries.list_jobs(runtime))
    runtime.remember("job", map(known_name, every))
    jobs = queries.choose_jobs(every, state or (), owner)
    shown = queries.recent_jobs(jobs) if runtime.output.is_table and not everything else jobs
    show_jobs(runtime.output, shown, title=f"jobs of {runtime.context.name}")
    if len(shown) < len(jobs):
        runtime.output.note(
            f"{count_text(len(jobs) - len(shown), 'job')} that ended earlier: tpuctl job list --all"
        )
    job_notices.show_supervision(
        runtime, supervision.check_supervised(runtime, every, are_all=True)
    )


@app.verb("describe")
def describe(runtime: Runtime, name: JobName) -> None:
    """Show one job.

    Why it waits or what it does next, its attempts, the worker that failed first, its cost.
    """
    from tpuctl.cli.job import describe_view
    from tpuctl.cli.job.details import job_document
    from tpuctl.cli.shell import detail_view, job_notices
    from tpuctl.operations.jobs import queries, supervision
    from tpuctl.operations.metrics import explain

    details = job_notices.result_of(runtime, queries.load_details(runtime, name))
    wrong = explain.explain_stored(runtime, details.job)
    if runtime.output.is_table:
        view = describe_view.job_view(details, wrong, runtime.output.typed)
        detail_view.print_details(runtime.output, view)
    else:
        runtime.output.fields(job_document(details, wrong.findings))
    job_notices.show_supervision(runtime, supervision.check_supervised(runtime, [details.job]))


app.verb_in("logs", "job.log:logs")
app.verb_in("metrics", "job.metrics:metrics")
app.verb_in("tensorboard", "job.tensorboard:tensorboard")
app.verb_in("bundle", "job.bundle:bundle")
app.verb_in("exec", "job.workers:execute")
app.verb_in("ssh", "job.workers:ssh")


@app.verb("wait")
def wait(runtime: Runtime, name: JobName, timeout: Timeout = None) -> None:
    """Wait until a job has ended.

    Its slices are gone then. The command fails when the job failed.
    """
    from tpuctl.cli.job.details import show_jobs
    from tpuctl.cli.shell import job_notices
    from tpuctl.operations.jobs import queries, supervision

    job = queries.find_ending_job(runtime, name)
    job_notices.add_cancel_note(runtime, job)
    job = job_notices.result_of(runtime, supervision.wait_until_settled(runtime, job, timeout))
    show_jobs(runtime.output, [job])
    queries.require_success(job)


@app.verb("cancel")
def cancel(
    runtime: Runtime,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="The jobs: their ids, or their names.",
            autocompletion=completed_by("job"),
        ),
    ],
) -> None:
    """End jobs, and delete their own slices.

    Programs get SIGTERM first.
    """
    from tpuctl.cli.job.details import show_jobs
    from tpuctl.cli.shell import job_notices
    from tpuctl.operations.jobs import change, supervision

    runtime.refuse_other_project()
    result = job_notices.result_of(runtime, change.cancel(runtime, names))
    show_jobs(runtime.output, result.asked)
    job_notices.show_supervision(runtime, supervision.check_other_owners(runtime, result.asked))
    result.raise_errors()


@app.verb("delete")
def delete(
    runtime: Runtime,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="The jobs: their ids, or their names.",
            autocompletion=completed_by("job"),
        ),
    ],
    yes: Yes = False,
) -> None:
    """Delete the records and logs of ended jobs.

    Their workdirs as well; checkpoints always stay.
    """
    from tpuctl.byte_size import size_text
    from tpuctl.operations.jobs import change

    planned = change.plan_deletion(runtime, names)
    listed = ", ".join(
        f"{each.job_id} ({each.state}, {size_text(each.size_bytes)})" for each in planned
    )
    what = "the record, logs and workdir of"
    place = f"gs://{runtime.context.bucket} in context {runtime.context.name!r}"
    runtime.confirm(f"Delete {what} {listed} in {place}?", yes=yes)
    for each in planned:
        runtime.on_interrupt[:] = [f"what is left of it: tpuctl job delete {each.job_id}"]
        change.delete_job(runtime.store(), each)
        runtime.output.note(f"deleted job {each.job_id}: {size_text(each.size_bytes)}")


@app.verb("retry")
def retry(runtime: Runtime, name: JobName) -> None:
    """Start a failed or cancelled job again.

    A supervisor is started when none runs.
    """
    from tpuctl.cli.job.details import show_jobs
    from tpuctl.cli.shell import job_notices
    from tpuctl.operations.jobs import change, supervision

    runtime.refuse_other_project()
    job = job_notices.result_of(runtime, change.retry(runtime, name))
    show_jobs(runtime.output, [job])
    job_notices.show_supervision(runtime, supervision.check_other_owners(runtime, [job]))
