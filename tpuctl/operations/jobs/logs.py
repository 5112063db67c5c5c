"""The logs of jobs: which lines are meant, those that are there, and those that come."""

import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from tpuctl.errors import NotFoundError, UsageError
from tpuctl.jobs import client
from tpuctl.jobs.interfaces import SYSTEM_CLOCKS
from tpuctl.jobs.logs import job_bundle, log_stream, segments
from tpuctl.jobs.logs.job_bundle import Bundle
from tpuctl.metrics.findings.known_errors import first_match
from tpuctl.models.duration import parse_duration
from tpuctl.models.job import JobRecord, workers_text
from tpuctl.models.job_log import LogFilter, LogLine
from tpuctl.operations.jobs.events import JobRuntime

TAIL_BYTES = 1024 * 1024
"""How much is read of the ends of all workers' logs together."""
LEAST_TAIL_BYTES = 4096
MOST_TAIL_BYTES = 64 * 1024
"""How much is read of the end of one worker's log."""
STEP = re.compile(r"\bstep\W{0,3}(\d{1,15})", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LogExcerpt:
    """Some lines of a log that follow each other, and the one that was looked for."""

    lines: list[LogLine]
    found: int | None = None
    """The index of the line that was looked for; None where there is no such line."""
    is_cut: bool = False
    """Other lines come before the first or after the last."""


@dataclass(frozen=True, slots=True)
class ContainedText:
    """Finds a text in lines, in capitals or not."""

    text: str

    def search(self, text: str, /) -> object | None:
        """The text, if it is in the line."""
        return self.text if self.text.lower() in text.lower() else None


def newest_lines(runtime: JobRuntime, job: JobRecord, most: int) -> LogExcerpt:
    """The newest lines of a job's newest attempt that has a log, merged by time."""
    store = runtime.store()
    sources = segments.sources(store, job.job_id)
    newest = max((attempt for attempt, _ in sources), default=0)
    mine = {source: entries for source, entries in sources.items() if source[0] == newest}
    size = min(MOST_TAIL_BYTES, max(LEAST_TAIL_BYTES, TAIL_BYTES // max(1, len(mine))))
    lines = [
        replace(line, attempt=newest, worker_id=worker_id)
        for (_, worker_id), entries in mine.items()
        for line in segments.tail_lines(store, entries, size)
    ]
    lines.sort(key=lambda line: line.time_s)
    return LogExcerpt(lines[-most:], is_cut=bool(lines))


def find_lines(
    lines: Iterable[LogLine], is_wanted: Callable[[LogLine], bool], most: int
) -> LogExcerpt:
    """The first line that is wanted, in the middle of others; the last lines where there is none.

    The rest of the log is not read.
    """
    kept: deque[LogLine] = deque(maxlen=most)
    reading, found, count = iter(lines), None, 0
    for line in reading:
        count += 1
        kept.append(line)
        if is_wanted(line):
            kept = deque(list(kept)[-(most // 2) :])
            found = len(kept) - 1
            break
    if found is None:
        return LogExcerpt(list(kept), is_cut=count > most)
    kept.extend(line for line, _ in zip(reading, range(most - len(kept)), strict=False))
    return LogExcerpt(list(kept), found, is_cut=count > found + 1 or len(kept) == most)


def is_step(wanted: int) -> Callable[[LogLine], bool]:
    """Whether a line reports that step or a later one."""

    def tells(line: LogLine) -> bool:
        told = STEP.search(line.text)
        return told is not None and int(told[1]) >= wanted

    return tells


def is_failure(worker_id: int | None) -> Callable[[LogLine], bool]:
    """Whether a line of the worker that went wrong first begins to say why; None: of any."""

    def tells(line: LogLine) -> bool:
        if worker_id not in (None, line.worker_id):
            return False
        return line.text.startswith("Traceback ") or first_match([line.text]) is not None

    return tells


def read_lines(runtime: JobRuntime, job_id: str, wanted: LogFilter) -> Iterator[LogLine]:
    """The lines that the job's workers have written so far, merged by time."""
    return log_stream.read(runtime.outside, job_id, wanted)


def follow_lines(
    runtime: JobRuntime, job_id: str, wanted: LogFilter, on_workers: Callable[[int], None]
) -> AsyncGenerator[JobRecord | LogLine]:
    """Lines as they are written, and the record at each change, until the job has ended.

    `on_workers` gets the number of workers of the current attempt.
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
        raise UsageError(f"{text!r} has no time zone", hint=f"write {text}Z for UTC")
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
