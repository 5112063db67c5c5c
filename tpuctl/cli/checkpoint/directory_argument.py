"""Which checkpoint directory a command line means: a bucket's, a local one, or a job's."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from tpuctl.models.job import JobRecord
    from tpuctl.operations.checkpoints.survey import CheckpointLocation, DirectorySurvey

Dir = Annotated[
    str,
    typer.Argument(
        metavar="DIR", help="gs://BUCKET/DIR, a directory here, or a job: where it saves."
    ),
]
Step = Annotated[
    str | None,
    typer.Option(metavar="N", help="Which step: its number or name. Default: the newest good one."),
]


def survey_directory(runtime: Runtime, text: str) -> "DirectorySurvey":
    """What is in the directory that is meant. Raises NotFoundError when no checkpoint is."""
    from tpuctl.operations.checkpoints.survey import survey_directory

    return survey_directory(resolve_directory(runtime, text))


def resolve_directory(runtime: Runtime, text: str) -> "CheckpointLocation":
    """The directory that is meant; a path that exists comes before a job of that name."""
    from tpuctl.operations.checkpoints.survey import CheckpointLocation
    from tpuctl.store import open_store

    if text.startswith("gs://"):
        return CheckpointLocation(_address(text), runtime.store)
    if not text:
        raise UsageError("no directory is named", hint="name it: gs://BUCKET/DIR, a path or a job")
    path = Path(text).expanduser()
    if path.is_dir():
        return CheckpointLocation(str(path), open_store)
    if path.exists():
        raise UsageError(f"{text} is a file", hint="name the directory that the steps are in")
    if "/" in text:
        raise NotFoundError(f"there is no directory {text!r}", hint="check the path")
    found = job_directory(runtime, _job(runtime, text))
    runtime.output.note(f"job {text} saves to {found.url}")
    return found


def job_directory(runtime: Runtime, job: "JobRecord") -> "CheckpointLocation":
    """Where a job saves. Raises UsageError when that is no bucket."""
    from tpuctl.operations.checkpoints.survey import CheckpointLocation

    kept = job.spec.checkpoints
    if kept is None:
        raise UsageError(
            f"job {job.job_id} was given no checkpoints.dir",
            hint="name the directory that it saves to",
        )
    if not kept.dir.startswith("gs://"):
        raise UsageError(
            f"job {job.job_id} saves to {kept.dir} of its workers, not to a bucket",
            hint="give it checkpoints.dir: gs://BUCKET/DIR",
        )
    return CheckpointLocation(_address(kept.dir), runtime.store)


def _address(text: str) -> str:
    from tpuctl.operations.stage.plan.names import split_url

    bucket, key = split_url(text)
    key = key.strip("/")
    return f"gs://{bucket}/{key}" if key else f"gs://{bucket}"


def _job(runtime: Runtime, name: str) -> "JobRecord":
    from tpuctl.jobs import client

    nowhere = NotFoundError(
        f"{name!r} is neither a directory here nor a job",
        hint="run: tpuctl job list, or name it as gs://BUCKET/DIR",
    )
    if runtime.has_no_local_state():
        raise nowhere
    try:
        return client.describe(runtime.store(), name)
    except NotFoundError as error:
        raise nowhere from error
