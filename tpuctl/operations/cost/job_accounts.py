"""What `tpuctl cost` needs of each job; of one that is settled this machine keeps it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.errors import DamagedStateError, NotFoundError
from tpuctl.jobs.record import record_store
from tpuctl.ledger.line_cache import LineCache, keep_text
from tpuctl.models.job import JobRecord
from tpuctl.operations.cost.job_facts import JobUse, uses_of_job
from tpuctl.operations.cost.job_times import JobTimes, times_of_job
from tpuctl.store import Entry, Store

FILE = "jobs.json"
READS_AT_ONCE = 16


class JobAccount(NamedTuple):
    """Whose a job is, what of its time was lost or idle, and which slices it used."""

    job_id: str
    generation: int
    """Of its record."""
    owner: str
    times: JobTimes | None
    """None where it never had a slice."""
    uses: Sequence[tuple[str, JobUse]] = ()
    """Of slices that are not its own, by node id."""
    record: JobRecord | None = None
    """None where all that it tells has been noted."""


def read_jobs(
    store: Store, home: Path, now_s: float, on_unreadable: Callable[[DamagedStateError], None]
) -> list[JobAccount]:
    """Every job of the bucket that can be read, by `now_s` (seconds since 1970)."""
    kept = _load(home, store.url)
    entries = list(store.list(record_store.RECORDS))
    known = [job for entry in entries if (job := kept.get(_name(entry))) and _is_of(job, entry)]
    seen = {job.job_id for job in known}

    def read(entry: Entry) -> JobAccount | None:
        try:
            record = record_store.load_listed(store, entry)
        except NotFoundError:
            return None
        except DamagedStateError as error:
            on_unreadable(error)
            return None
        return account_of_job(record, entry.generation, now_s)

    unread = [entry for entry in entries if _name(entry) not in seen]
    return [*known, *filter(None, parallel_map(read, unread, threads=READS_AT_ONCE))]


def account_of_job(record: JobRecord, generation: int, now_s: float) -> JobAccount:
    """What a record tells by `now_s`."""
    has_slice = any(attempt.ready_s is not None for attempt in record.attempts)
    return JobAccount(
        record.job_id,
        generation,
        record.owner,
        times_of_job(record, now_s) if has_slice else None,
        tuple(uses_of_job(record, now_s)),
        record,
    )


def uses_by_node(jobs: Iterable[JobAccount]) -> dict[str, list[JobUse]]:
    """When jobs used slices that are not their own, by node id, in the order of time."""
    found: dict[str, list[JobUse]] = {}
    for job in jobs:
        for node_id, use in job.uses:
            found.setdefault(node_id, []).append(use)
    return {node_id: sorted(uses) for node_id, uses in found.items()}


def keep_jobs(home: Path, store_url: str, jobs: Sequence[JobAccount]) -> None:
    """Keep what settled jobs tell; what their records say of slices has been noted."""
    settled = [job for job in jobs if job.record is None or job.record.is_settled]
    if any(job.record is not None for job in settled):
        rows = [[*job[:3], job.times, job.uses] for job in settled]
        keep_text(_path(home, store_url), json.dumps(rows))


def _load(home: Path, store_url: str) -> dict[str, JobAccount]:
    try:
        rows = json.loads(_path(home, store_url).read_text("utf-8"))
        jobs = [_job(row) for row in rows]
    except (OSError, ValueError, TypeError):
        return {}
    return {job.job_id: job for job in jobs}


def _job(row: Sequence[Any]) -> JobAccount:
    job_id, generation, owner, times, uses = row
    spans = times and JobTimes(*([tuple(span) for span in each] for each in times))
    return JobAccount(
        job_id, generation, owner, spans, tuple((key, JobUse(*use)) for key, use in uses)
    )


def _path(home: Path, store_url: str) -> Path:
    return LineCache.of(home, store_url).directory / FILE


def _name(entry: Entry) -> str:
    return entry.key.removeprefix(record_store.RECORDS)


def _is_of(job: JobAccount, entry: Entry) -> bool:
    return job.generation == entry.generation
