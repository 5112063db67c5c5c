"""`tpuctl job submit` and `tpuctl run`: a job file becomes a job."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.job.details import show_jobs
from tpuctl.cli.shell import job_notices
from tpuctl.cli.shell.options import OverBudget, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.supervisor import run_until_signal
from tpuctl.errors import UsageError
from tpuctl.models.inference.service_record import ServiceRecord
from tpuctl.models.job import JobRecord

if TYPE_CHECKING:
    from tpuctl.operations.jobs.submit import JobRequest

STARTING_TEXT = "its supervisor begins with it"
"""What a row says that was written before there was one."""
File = Annotated[Path, typer.Argument(metavar="FILE", help="The job file.")]
Include = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Send these files of the workdir, ignored or with a key."),
]


def submit(
    runtime: Runtime,
    file: File,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run on this slice, and never tear it down.",
            autocompletion=completed_by("node"),
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then follow its log.")] = False,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Supervise it here, until it has ended.")
    ] = False,
    include: Include = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done and cost; write nothing.")
    ] = False,
    over_budget: OverBudget = False,
) -> None:
    """Submit a job, or a service where the file has `serve`.

    Returns when the job is in the bucket and a supervisor looks after it.
    """
    if follow and foreground:
        raise UsageError(
            "--follow and --foreground exclude each other",
            hint="follow from another terminal: tpuctl job logs -f NAME",
        )
    if dry_run:
        show_plan(runtime, _request(runtime, file, node, include, over_budget=over_budget))
        return
    request = _request(runtime, file, node, include, over_budget=over_budget)
    job = _submit(runtime, request, is_awaited=follow or foreground)
    if not isinstance(job, JobRecord):
        _show_service(runtime, job)
        return
    if foreground:
        supervise_here(runtime, job)
    elif follow:
        _hand_over_and_follow(runtime, job)
    else:
        _hand_over(runtime, job)
        show_jobs(runtime.output, [replace(job, why=STARTING_TEXT)])


def run(
    runtime: Runtime, file: File, include: Include = None, over_budget: OverBudget = False
) -> None:
    """Submit a job and follow it to its end.

    Its slice is deleted then, unless `teardown` in the file says otherwise.
    """
    request = _request(runtime, file, None, include, over_budget=over_budget)
    job = _submit(runtime, request, is_awaited=True)
    assert isinstance(job, JobRecord)  # a service is refused
    _hand_over_and_follow(runtime, job)


def run_job(runtime: Runtime, request: "JobRequest") -> JobRecord:
    """Submit a job and follow it to its end; raises its error when it failed."""
    from tpuctl.operations.jobs import submit as submission

    job = job_notices.result_of(runtime, submission.submit_job(runtime, request))
    _hand_over_and_follow(runtime, job)
    return job


def supervise_here(runtime: Runtime, job: JobRecord) -> None:
    """Supervise one job in this process until it is settled; raises its error when it failed."""
    from tpuctl.operations.jobs import queries, supervise

    job_notices.add_cancel_note(runtime, job, is_supervised=False)
    ended = job_notices.result_of(
        runtime,
        supervise.supervise_here(
            runtime, job, partial(run_until_signal, runtime), runtime.output.note
        ),
    )
    show_jobs(runtime.output, [ended])
    queries.require_success(ended)


def _submit(
    runtime: Runtime, request: "JobRequest", *, is_awaited: bool
) -> JobRecord | ServiceRecord:
    from tpuctl.operations.services import submit as submission

    return job_notices.result_of(
        runtime, submission.submit_job_or_service(runtime, request, is_awaited=is_awaited)
    )


def _show_service(runtime: Runtime, record: ServiceRecord) -> None:
    """Print the row of a service that was submitted."""
    from tpuctl.cli.service.details import show_services
    from tpuctl.operations.services.queries import ServiceView

    show_services(runtime.output, [ServiceView(replace(record, why=STARTING_TEXT))])


def _request(
    runtime: Runtime,
    file: Path,
    node: str | None,
    include: list[str] | None,
    *,
    over_budget: bool,
) -> "JobRequest":
    from tpuctl.operations.jobs.submit import JobRequest

    runtime.refuse_other_project()
    patterns = tuple(include or ())
    return JobRequest(file, node, runtime.shared.zone, patterns, over_budget=over_budget)


def show_plan(runtime: Runtime, request: "JobRequest") -> None:
    """Print what a submission would do and cost; nothing is written."""
    from tpuctl.cli.job import plan_view
    from tpuctl.cli.shell import detail_view
    from tpuctl.operations.services import submit as services

    found = job_notices.result_of(runtime, services.plan_job_or_service(runtime, request))
    if runtime.output.is_table:
        detail_view.print_details(runtime.output, plan_view.plan_view(found))
    else:
        runtime.output.fields(plan_view.plan_document(found))


def _hand_over(runtime: Runtime, job: JobRecord) -> None:
    from tpuctl.operations.jobs import supervision

    job_notices.show(runtime, supervision.hand_to_supervisor(runtime, job))


def _hand_over_and_follow(runtime: Runtime, job: JobRecord) -> None:
    from tpuctl.cli.job.follow import follow_until_ended

    _hand_over(runtime, job)
    follow_until_ended(runtime, job.job_id)
