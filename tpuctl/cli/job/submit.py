"""Submitting a job from a terminal: what is checked, said, and handed to a supervisor."""

import platform
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.job.details import show_jobs
from tpuctl.cli.job.watch import follow_to_the_end, say_attended, say_how_to_end, say_unattended
from tpuctl.cli.shell.output import Usd
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import NotFoundError, PermissionDeniedError, TransientError, UsageError
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.operations.local import local
from tpuctl.operations.slices import lifecycle

if TYPE_CHECKING:
    from tpuctl.jobs.submit.submit import Submitter

TAKEN_UP = "its supervisor begins with it"
"""What a row says that was written before there was one."""
PERHAPS = "the job is submitted, or not; look with: tpuctl job list"
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
    submitted = written(runtime, file, node, include or ())
    if foreground:
        from tpuctl.cli.job.foreground import supervise_here

        supervise_here(runtime, submitted)
        return
    look_after(runtime, submitted)
    if not follow:
        show_jobs(runtime.output, [replace(submitted, why=TAKEN_UP)])
        return
    follow_to_the_end(runtime, submitted.job_id)


def written(
    runtime: Runtime, file: Path, node_name: str | None, include: Sequence[str]
) -> JobRecord:
    """Check a job file and put the job into the bucket; nobody looks after it yet."""
    from tpuctl.jobs.local import unsettled
    from tpuctl.jobs.secrets import secrets
    from tpuctl.jobs.spec import file as job_file
    from tpuctl.jobs.submit import submit as submission

    refuse_other_project(runtime)
    context = runtime.context
    spec = job_file.load(file, bucket=context.bucket, environ=runtime.environ)
    if runtime.shared.zone and not node_name:
        spec = replace(spec, resources=replace(spec.resources, zones=(runtime.shared.zone,)))
    if include and spec.workdir is None:
        raise UsageError("--include is for files of the workdir, and the job file has none")
    secrets.resolved(spec.secrets, runtime.environ)  # what is not there is told now
    _look_into_buckets(runtime, spec)
    node = lifecycle.find(runtime.tpu, context.zone, node_name) if node_name else None
    runtime.goes_on.append(PERHAPS)
    submitted = submission.submit(
        spec,
        runtime.outside,
        _submitter(runtime, spec, near=node is None, include=tuple(include)),
        now_s=runtime.now(),
        node=node,
    )
    runtime.goes_on.remove(PERHAPS)
    say_how_to_end(runtime, submitted)
    say_unattended(runtime)
    unsettled.note(runtime.home, context.name, submitted.job_id)
    runtime.output.note(
        f"job {submitted.job_id} is submitted: tpuctl job logs -f {submitted.job_id}"
    )
    runtime.output.note(_price(submitted))
    _warn(runtime, submitted)
    return submitted


def look_after(runtime: Runtime, job: JobRecord) -> None:
    """See that a supervisor of this machine runs, and knows the job's secrets."""
    supervised(runtime)
    hand_over(runtime, job)


def check_again(runtime: Runtime, job: JobRecord) -> None:
    """What is checked before a job is tried again: its secrets, and that its checkpoints are free.

    Raises UsageError, LocalIOError, ConflictError.
    """
    from tpuctl.jobs.secrets import secrets
    from tpuctl.jobs.submit import sharing

    secrets.resolved(job.spec.secrets, runtime.environ)
    sharing.refuse_shared_checkpoints(runtime.store(), job.spec, but=job.job_id)


def waits_for_values(job: JobRecord) -> bool:
    """The job has not ended, and may come to need values of an environment that are not known."""
    from tpuctl.jobs.secrets import secrets

    return not job.is_ended and bool(secrets.of_environment(job.spec.secrets))


def supervised(runtime: Runtime) -> None:
    """See that a supervisor runs here, and say where."""
    from tpuctl.jobs.local import seat
    from tpuctl.jobs.submit import submit

    name = runtime.context.name
    submit.ensure_supervisor(runtime.home, name, seat.argv(sys.executable, name))
    pid = seat.holder(runtime.home, name)
    process = f" (pid {pid})" if pid else ""
    runtime.output.note(f"supervised by {platform.node()}{process}")
    say_attended(runtime)


def hand_over(runtime: Runtime, job: JobRecord) -> None:
    """Give the supervisor here what this environment has of a job's secrets.

    Raises UsageError naming a variable that is not set; TransientError when nobody takes them.
    """
    from tpuctl.jobs.secrets import handover, secrets

    values = secrets.resolved(secrets.of_environment(job.spec.secrets), runtime.environ)
    if values:
        handover.give(runtime.home, runtime.context.name, job.job_id, values)
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
    from tpuctl.jobs.local import seat
    from tpuctl.jobs.submit import submit as submission

    context = runtime.context
    return submission.Submitter(
        owner=submission.default_owner(),
        seat=seat.lasting_name(runtime.home, context.name),
        provides=local.provided(runtime.config, context),
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


def _look_into_buckets(runtime: Runtime, spec: JobSpec) -> None:
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
    from tpuctl.jobs.slices import switch
    from tpuctl.jobs.submit.doubts import doubts

    lines = doubts(submitted)
    if submitted.node is None:
        lines += filter(None, [switch.warning(runtime.store(), submitted.usd_per_hour)])
    for line in lines:
        runtime.output.warn(line)
