"""The logs of jobs: which lines are meant, those that are there, and those that come."""

from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from tpuctl.errors import NotFoundError, UsageError
from tpuctl.jobs import client
from tpuctl.jobs.interfaces import SYSTEM_CLOCKS
from tpuctl.jobs.logs import job_bundle, log_stream
from tpuctl.jobs.logs.job_bundle import Bundle
from tpuctl.models.duration import parse_duration
from tpuctl.models.job import JobRecord, workers_text
from tpuctl.models.job_log import LogFilter, LogLine
from tpuctl.operations.jobs.events import JobRuntime


def read_lines(runtime: JobRuntime, job_id: str, wanted: LogFilter) -> Iterator[LogLine]:
    """The lines that the job's workers have written so far, merged by time."""
    return log_stream.read(runtime.outside, job_id, wanted)


def follow_lines(
    runtime: JobRuntime, job_id: str, wanted: LogFilter, on_workers: Callable[[int], None]
) -> AsyncGenerator[JobRecord | LogLine]:
    """Lines as they are written, and the record at each change, until the job has ended.

    `on_workers` is told how many workers the current attempt has.
    """
    return log_stream.follow(
        runtime.outside, job_id, clocks=SYSTEM_CLOCKS, wanted=wanted, on_workers=on_workers
    )


def check_filter(job: JobRecord, wanted: LogFilter, *, follow: bool) -> None:
    """Raises NotFoundError for an attempt or a worker that the job does not have.

    An attempt may still come when a job that has not ended is followed.
    """
    if follow and not job.is_ended:
        wanted = replace(wanted, attempts=None)
    made = len(job.attempts)
    if later := [number for number in wanted.attempts or () if not 0 < number <= made]:
        raise NotFoundError(
            f"job {job.job_id!r} has no attempt {later[0]}", hint=f"it has made {made}"
        )
    known = max((attempt.worker_count for attempt in job.attempts), default=0)
    if known and (beyond := sorted(worker for worker in wanted.workers or () if worker >= known)):
        raise NotFoundError(
            f"job {job.job_id!r} has no worker {beyond[0]}",
            hint=f"it has {workers_text(known)}, from 0",
        )


def parse_since(text: str, now_s: float) -> float:
    """The time that `10m` (so long ago) or an ISO date means, in seconds since 1970.

    Raises UsageError.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return now_s - parse_duration(text)
    if moment.tzinfo is None:
        raise UsageError(f"{text!r} does not say in which time zone", hint=f"write {text}Z for UTC")
    return moment.timestamp()


def write_bundle(runtime: JobRuntime, name: str, file: Path | None) -> tuple[Path, Bundle]:
    """Write a job's record, events, last lines, statuses and stacks to a .tar.gz, `ID.tar.gz` here
    unless `file` is given; returns its path and what is in it.
    """
    store = runtime.store()
    bundle = job_bundle.collect(store, client.describe(store, name).job_id)
    path = file or Path(f"{bundle.record.job_id}.tar.gz")
    job_bundle.write(bundle, path)
    return path, bundle
