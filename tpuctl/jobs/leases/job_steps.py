"""The newest step of each job, told in the heartbeat of the supervisor that looks after it.

A job's record has its step too, but is written at most every 45 s while nothing else happens. The
heartbeat is written every 5 s anyway, once for all jobs.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tpuctl.errors import NotFoundError
from tpuctl.jobs.leases.lease import HEARTBEATS
from tpuctl.jobs.record import decoding
from tpuctl.jobs.record.decoding import MalformedError
from tpuctl.models.job import JobRecord
from tpuctl.store import Store


@dataclass(frozen=True, slots=True)
class JobStep:
    """The last step that the workers of an attempt have reported."""

    attempt: int
    step: int


@dataclass(frozen=True, slots=True)
class _HeartbeatSteps:
    steps: Mapping[str, JobStep] = field(default_factory=dict)


def steps_of(records: Iterable[JobRecord]) -> dict[str, dict[str, int]]:
    """The steps of running jobs by job id, as a heartbeat has them."""
    return {
        record.job_id: {"attempt": record.attempt.number, "step": record.attempt.last_step}
        for record in records
        if record.attempt is not None and record.attempt.last_step
    }


def with_newest_steps(store: Store, jobs: Iterable[JobRecord]) -> list[JobRecord]:
    """The same jobs, with the steps that heartbeats have of the newest attempt of open ones."""
    found = list(jobs)
    if not any(_is_stepping(job) for job in found):
        return found
    told = _told_steps(store)
    return [with_step(job, told.get(job.job_id)) for job in found]


def _is_stepping(job: JobRecord) -> bool:
    return not job.is_ended and job.attempt is not None and job.attempt.started_s is not None


def _told_steps(store: Store) -> dict[str, JobStep]:
    told: dict[str, JobStep] = {}
    for entry in store.list(HEARTBEATS):
        told |= heartbeat_steps(store, entry.key.removeprefix(HEARTBEATS))
    return told


def heartbeat_steps(store: Store, holder: str) -> Mapping[str, JobStep]:
    """What a holder's heartbeat tells; nothing when it cannot be read, or has gone."""
    with suppress(NotFoundError, MalformedError):
        body = decoding.parse_document(store.get_range(HEARTBEATS + holder))
        return decoding.decode_dataclass(_HeartbeatSteps, body).steps
    return {}


def with_step(job: JobRecord, told: JobStep | None) -> JobRecord:
    """A job with the step that a heartbeat has of it, if that is of its newest attempt."""
    newest = job.attempt
    if told is None or newest is None or not _is_stepping(job) or newest.number != told.attempt:
        return job
    newest = replace(newest, last_step=max(newest.last_step, told.step))
    return replace(job, attempts=(*job.attempts[:-1], newest))
