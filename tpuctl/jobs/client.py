"""What people ask about jobs, and of them: list, describe, cancel, retry."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tpuctl.api.tpu.network_errors import NETWORK_ERRORS
from tpuctl.errors import (
    CapacityError,
    DamagedStateError,
    JobFailedError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    PreemptedError,
    TpuctlError,
    UsageError,
)
from tpuctl.jobs.leases import heartbeat, lease
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import decoding, job_retry, record_store
from tpuctl.jobs.record.decoding import MalformedError
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord, JobState
from tpuctl.store import Store

ERROR_BY_REASON: dict[str, type[TpuctlError]] = {
    kind.reason: kind
    for kind in (
        *(UsageError, PreconditionError, PermissionDeniedError, CapacityError),
        *NETWORK_ERRORS,
    )
}
"""What a refused slice is, by the kind of the API's error."""


@dataclass(frozen=True, slots=True)
class SupervisorInfo:
    """The supervisor that looks after a job, as its heartbeat says."""

    holder: str
    host: str = ""
    pid: int = 0
    owner: str = ""
    since_s: float | None = None
    """When it began to supervise."""


def list_jobs(
    store: Store, on_unreadable: Callable[[DamagedStateError], None] = lambda _error: None
) -> list[JobRecord]:
    """Every job of the bucket, the newest first; `on_unreadable` gets an error per bad record."""
    return record_store.load_all(store, on_unreadable)


def unsupervised_jobs(store: Store, home: Path, context: str) -> list[str]:
    """Ids of unsettled jobs that no supervisor looks after, neither here nor elsewhere."""
    if supervisor_lock.is_locked(home, context):
        return []
    return heartbeat.unsupervised_job_ids(store, supervisor_lock.host_id(home, context))


def supervisor_of(store: Store, home: Path, context: str, job_id: str) -> SupervisorInfo | None:
    """Who looks after a job; None when no supervisor does. Raises DamagedStateError."""
    found = lease.load_lease(store, job_id)
    if found is None or not found.holder:
        return None
    is_here = supervisor_lock.is_locked(home, context)
    here = None if is_here else supervisor_lock.host_id(home, context)
    if job_id in heartbeat.unsupervised_job_ids(store, here):
        return None
    with suppress(NotFoundError, MalformedError):
        body = decoding.parse_document(store.get_range(lease.HEARTBEATS + found.holder))
        return decoding.decode_dataclass(SupervisorInfo, {**body, "holder": found.holder})
    return SupervisorInfo(found.holder)


def supervised_jobs(store: Store, home: Path, context: str) -> frozenset[str]:
    """Ids of unsettled jobs that a live supervisor looks after, here or elsewhere."""
    unsettled = {entry.key.removeprefix(lease.LEASES) for entry in store.list(lease.LEASES)}
    return frozenset(unsettled - set(unsupervised_jobs(store, home, context)))


def describe(store: Store, name: str) -> JobRecord:
    """One job: by its id, or by its name the one that is open, or the newest that was.

    Raises NotFoundError, UsageError when several of that name are open.
    """
    try:
        return record_store.load(store, name).record
    except NotFoundError as error:
        named = [job for job in list_jobs(store) if job.spec.name == name]
        if not named:
            raise error from None
    active = [job for job in named if not job.is_settled]
    if len(active) > 1:
        raise UsageError(
            f"{len(active)} open jobs are named {name!r}",
            hint=f"say which: {', '.join(f'{job.job_id} ({job.state})' for job in active[:5])}",
        )
    return (active or named)[0]


def cancel(store: Store, job_id: str, now_s: float) -> JobRecord:
    """Ask a job's supervisor to end it; one that has ended is left as it is."""
    wanted = record_store.request_cancel(store, job_id, now_s)
    lease.notify_holder(store, job_id)
    return wanted


def reopen(store: Store, job_id: str, now_s: float) -> JobRecord:
    """Let an ended job begin again. Raises PreconditionError when it cannot.

    Its fence goes up: whoever still clears away behind the earlier attempts finds that it is not
    his any more. The lease comes first, so that the job is not overlooked if this ends here.
    """

    def reopen_here(record: JobRecord) -> JobRecord:
        wanted = replace(job_retry.reopen_record(record, now_s), fence=record.fence + 1)
        lease.reoffer(store, job_id, wanted.owner, wanted.fence)
        return wanted

    reopened = record_store.change(store, job_id, reopen_here)
    if lease.load_lease(store, job_id) is None:
        lease.reoffer(store, job_id, reopened.owner, reopened.fence)
    return reopened


def error_of(found: JobRecord) -> TpuctlError | None:
    """The error with which `job wait` ends for an ended job; None when it succeeded."""
    if found.state == JobState.SUCCEEDED:
        return None
    if found.state == JobState.CANCELLED:
        again = f"to start it again: tpuctl job retry {found.job_id}"
        if found.replica is not None:
            again = f"run: tpuctl service describe {found.replica.service}"
        return JobFailedError(f"job {found.job_id!r} was cancelled", hint=again)
    last = found.attempt
    ended_it = last is not None and last.number == found.ended_by_attempt
    kind = _error_class(last) if last is not None and ended_it else JobFailedError
    hung = last is not None and last.outcome == AttemptOutcome.HUNG
    hint = f"run: tpuctl job {'bundle' if hung else 'logs'} {found.job_id}"
    if issubclass(kind, NETWORK_ERRORS):
        hint = "change the job file, then run: tpuctl job submit FILE"
    return kind(f"job {found.job_id!r} failed: {found.why}", hint=hint)


def _error_class(last: Attempt) -> type[TpuctlError]:
    """The class of the error of a job that this attempt has ended."""
    if last.outcome == AttemptOutcome.PREEMPTED:
        return PreemptedError
    if last.outcome == AttemptOutcome.STOCKOUT:
        return CapacityError
    if last.outcome in (AttemptOutcome.REFUSED, AttemptOutcome.BLOCKED):
        return ERROR_BY_REASON.get(last.refusal, CapacityError)
    return JobFailedError
