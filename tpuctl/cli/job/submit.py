"""Submitting a job from a terminal: what is checked, said, and handed to a supervisor."""

import platform
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.job.details import show_jobs
from tpuctl.cli.job.watch_job import (
    add_cancel_note,
    add_unsupervised_note,
    follow_until_ended,
    remove_unsupervised_note,
)
from tpuctl.cli.shell.output import Usd
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import NotFoundError, PermissionDeniedError, TransientError, UsageError
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.operations.local import local_cloud
from tpuctl.operations.slices import lifecycle

if TYPE_CHECKING:
    from tpuctl.jobs.submit.job_submission import Submitter

STARTING_TEXT = "its supervisor begins with it"
"""What a row says that was written before there was one."""
UNCERTAIN_NOTE = "the job is submitted, or not; look with: tpuctl job list"
"""To whom a command is interrupted while the bucket takes the job."""
File = Annotated[Path, typer.Argument(metavar="FILE", help="The job file.")]
Include = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Send these files of the workdir, ignored or with a key."),
]


def submit(
    ctx: typer.Context,
    file: File,
    node: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run on this slice, and never tear it down."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then follow its log.")] = False,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Supervise it here, until it has ended.")
    ] = False,
    include: Include = None,
) -> None:
    """Submit a job; returns when it is in the bucket and a supervisor looks after it."""
    runtime = ctx.ensure_object(Runtime)
    if follow and foreground:
        raise UsageError(
            "--follow and --foreground exclude each other",
            hint="follow from another terminal: tpuctl job logs -f NAME",
        )
    submitted = submit_job(runtime, file, node, include or ())
    if foreground:
        from tpuctl.cli.job.foreground import supervise_here

        supervise_here(runtime, submitted)
        return
    hand_to_supervisor(runtime, submitted)
    if not follow:
        show_jobs(runtime.output, [replace(submitted, why=STARTING_TEXT)])
        return
    follow_until_ended(runtime, submitted.job_id)


def submit_job(
    runtime: Runtime, file: Path, node_name: str | None, include: Sequence[str]
) -> JobRecord:
    """Check a job file and put the job into the bucket; nobody looks after it yet."""
    from tpuctl.jobs.local import open_jobs
    from tpuctl.jobs.secrets import job_secrets
    from tpuctl.jobs.spec import job_file
    from tpuctl.jobs.submit import job_submission as submission

    refuse_other_project(runtime)
    context = runtime.context
    spec = job_file.load(file, bucket=context.bucket, environ=runtime.environ)
    if runtime.shared.zone and not node_name:
        spec = replace(spec, resources=replace(spec.resources, zones=(runtime.shared.zone,)))
    if include and spec.workdir is None:
        raise UsageError("--include is for files of the workdir, and the job file has none")
    job_secrets.resolve_values(spec.secrets, runtime.environ)  # what is not there is told now
    _check_buckets(runtime, spec)
    node = lifecycle.find(runtime.tpu, context.zone, node_name) if node_name else None
    runtime.on_interrupt.append(UNCERTAIN_NOTE)
    submitted = submission.submit(
        spec,
        runtime.outside,
        _submitter(runtime, spec, near=node is None, include=tuple(include)),
        now_s=runtime.now(),
        node=node,
    )
    runtime.on_interrupt.remove(UNCERTAIN_NOTE)
    add_cancel_note(runtime, submitted)
    add_unsupervised_note(runtime)
    open_jobs.add_jobs(runtime.home, context.name, submitted.job_id)
    runtime.output.note(
        f"job {submitted.job_id} is submitted: tpuctl job logs -f {submitted.job_id}"
    )
    runtime.output.note(_price(submitted))
    _warn(runtime, submitted)
    return submitted


def hand_to_supervisor(runtime: Runtime, job: JobRecord) -> None:
    """See that a supervisor of this machine runs, and knows the job's secrets."""
    start_supervisor(runtime)
    hand_over_secrets(runtime, job)


def check_before_retry(runtime: Runtime, job: JobRecord) -> None:
    """What is checked before a job is tried again: its secrets, and that its checkpoints are free.

    Raises UsageError, LocalIOError, ConflictError.
    """
    from tpuctl.jobs.secrets import job_secrets
    from tpuctl.jobs.submit import shared_checkpoints

    job_secrets.resolve_values(job.spec.secrets, runtime.environ)
    shared_checkpoints.refuse_shared_checkpoints(runtime.store(), job.spec, but=job.job_id)


def needs_environment_values(job: JobRecord) -> bool:
    """The job has not ended, and may come to need values of an environment that are not known."""
    from tpuctl.jobs.secrets import job_secrets

    return not job.is_ended and bool(job_secrets.environment_references(job.spec.secrets))


def start_supervisor(runtime: Runtime) -> None:
    """See that a supervisor runs here, and say where."""
    from tpuctl.jobs.local import supervisor_lock
    from tpuctl.jobs.submit import job_submission as submit

    name = runtime.context.name
    submit.ensure_supervisor(
        runtime.home, name, supervisor_lock.supervisor_argv(sys.executable, name)
    )
    pid = supervisor_lock.holder_pid(runtime.home, name)
    process = f" (pid {pid})" if pid else ""
    runtime.output.note(f"supervised by {platform.node()}{process}")
    remove_unsupervised_note(runtime)


def hand_over_secrets(runtime: Runtime, job: JobRecord) -> None:
    """Give the supervisor here what this environment has of a job's secrets.

    Raises UsageError naming a variable that is not set; TransientError when nobody takes them.
    """
    from tpuctl.jobs.secrets import job_secrets, secret_handover

    values = job_secrets.resolve_values(
        job_secrets.environment_references(job.spec.secrets), runtime.environ
    )
    if values:
        secret_handover.hand_over(runtime.home, runtime.context.name, job.job_id, values)
        runtime.output.note(f"secrets handed over: {', '.join(values)}")


def refuse_other_project(runtime: Runtime) -> None:
    """A supervisor is told the context and nothing else."""
    if runtime.shared.project or runtime.environ.get("TPUCTL_PROJECT"):
        raise UsageError(
            "a job runs in the project of its context",
            hint="leave out --project and TPUCTL_PROJECT; make a context for that project",
        )


def _submitter(
    runtime: Runtime, spec: JobSpec, *, near: bool, include: tuple[str, ...]
) -> "Submitter":
    from tpuctl.jobs.local import supervisor_lock
    from tpuctl.jobs.submit import job_submission as submission

    context = runtime.context
    return submission.Submitter(
        owner=submission.default_owner(),
        seat=supervisor_lock.ensure_host_id(runtime.home, context.name),
        provides=local_cloud.provided_features(runtime.config, context),
        regions=_regions(runtime) if near and not spec.resources.zones else frozenset(),
        include=include,
        say=runtime.output.note,
    )


def _regions(runtime: Runtime) -> frozenset[str]:
    """The regions of the context's bucket; none when nobody may tell."""
    try:
        facts = runtime.bulk(runtime.context.bucket).facts()
    except (PermissionDeniedError, NotFoundError, TransientError):
        return frozenset()
    return frozenset(one.lower() for one in facts.data_locations or (facts.location,))


def _check_buckets(runtime: Runtime, spec: JobSpec) -> None:
    """A bucket that is not there would be noticed on a slice that is paid."""
    if spec.checkpoints:
        next(iter(runtime.store(spec.checkpoints.dir).list()), None)
    for path, url in spec.file_mounts.items():
        if next(iter(runtime.store(url).list()), None) is None:
            runtime.output.warn(f"file_mounts: there is nothing at {url} for {path} yet")


def _price(job: JobRecord) -> str:
    """What the job runs on, and what that costs."""
    number = job.spec.resources.num_slices
    slices = job.accelerator_type if number == 1 else f"{number} x {job.accelerator_type}"
    where = f"on node {job.node}" if job.node else f"in {' or '.join(job.zones)}"
    usd = job.usd_per_hour
    price = "no list price is known" if usd is None else f"{Usd(usd)} USD/h while READY"
    return f"{slices} {where}: {price}"


def _warn(runtime: Runtime, submitted: JobRecord) -> None:
    """What may not go as the person expects."""
    from tpuctl.jobs.slices import switch_setup
    from tpuctl.jobs.submit.submit_warnings import warnings_for

    lines = warnings_for(submitted)
    if submitted.node is None:
        lines += filter(None, [switch_setup.warning(runtime.store(), submitted.usd_per_hour)])
    for line in lines:
        runtime.output.warn(line)
