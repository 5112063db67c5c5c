"""The checkpoint directory that a person means: a bucket's, a local one, or a job's."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from tpuctl.errors import NotFoundError, UsageError
from tpuctl.jobs import client
from tpuctl.models.job import JobRecord
from tpuctl.operations.checkpoints.survey import CheckpointLocation
from tpuctl.operations.stage.plan.names import split_url
from tpuctl.store import Store, open_store


class StoreOpener(Protocol):
    """Opens a bucket, a part of one or a directory by its URL; the jobs' bucket without one."""

    def __call__(self, url: str | None = None) -> Store:
        """The store, not yet read."""


def resolve_directory(
    text: str, open_bucket: StoreOpener, has_jobs: Callable[[], bool]
) -> CheckpointLocation:
    """The directory that `text` means; a path that exists comes before a job of that name.

    `has_jobs` is asked before jobs are read. Raises UsageError when `text` is a file, or a job that
    does not save to a bucket, NotFoundError when there is neither a path nor a job.
    """
    if text.startswith("gs://"):
        return CheckpointLocation(_normalize(text), open_bucket)
    if not text:
        raise UsageError("no directory is named", hint="name it: gs://BUCKET/DIR, a path or a job")
    path = Path(text).expanduser()
    if path.is_dir():
        return CheckpointLocation(str(path), open_store)
    if path.exists():
        raise UsageError(f"{text} is a file", hint="name the directory that the steps are in")
    if "/" in text:
        raise NotFoundError(f"there is no directory {text!r}", hint="check the path")
    nowhere = NotFoundError(
        f"{text!r} is neither a directory here nor a job",
        hint="run: tpuctl job list, or name it as gs://BUCKET/DIR",
    )
    if not has_jobs():
        raise nowhere
    try:
        job = client.describe(open_bucket(), text)
    except NotFoundError as error:
        raise nowhere from error
    return replace(job_directory(job, open_bucket), job=text)


def job_directory(job: JobRecord, open_bucket: StoreOpener) -> CheckpointLocation:
    """The directory that a job saves to; UsageError when that is not in a bucket."""
    checkpoints = job.spec.checkpoints
    if checkpoints is None:
        raise UsageError(
            f"job {job.job_id} was given no checkpoints.dir",
            hint="name the directory that it saves to",
        )
    if not checkpoints.dir.startswith("gs://"):
        raise UsageError(
            f"job {job.job_id} saves to {checkpoints.dir} of its workers, not to a bucket",
            hint="give it checkpoints.dir: gs://BUCKET/DIR",
        )
    return CheckpointLocation(_normalize(checkpoints.dir), open_bucket)


def _normalize(url: str) -> str:
    bucket, key = split_url(url)
    return f"gs://{bucket}/{key.strip('/')}".rstrip("/")
