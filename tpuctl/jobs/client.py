"""What people ask about jobs, and of them: list, describe, wait, cancel."""

from collections.abc import Callable
from pathlib import Path

from tpuctl.errors import (
    CapacityError,
    DamagedStateError,
    DeadlineError,
    JobFailedError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    PreemptedError,
    TpuctlError,
    UsageError,
)
from tpuctl.jobs import lease, record, seat
from tpuctl.models.job import Attempt, JobRecord, JobState, Outcome
from tpuctl.store import Store

POLL_S = 0.5

REFUSALS: dict[str, type[TpuctlError]] = {
    kind.reason: kind
    for kind in (UsageError, PreconditionError, PermissionDeniedError, CapacityError)
}
"""What a refused slice is, by the kind of the API's error."""


def list_jobs(
    store: Store, on_unreadable: Callable[[DamagedStateError], None] = lambda _error: None
) -> list[JobRecord]:
    """Every job of the bucket, the newest first; told of the records that cannot be read."""
    return record.load_all(store, on_unreadable)


def unsupervised(store: Store, home: Path, context: str) -> list[str]:
    """Ids of unsettled jobs that no supervisor looks after, neither here nor elsewhere."""
    if seat.is_taken(home, context):
        return []
    return lease.silent(store, seat.name(home, context))


def describe(store: Store, name: str) -> JobRecord:
    """One job, by its id or by a name that only one job has. Raises NotFoundError, UsageError."""
    try:
        return record.load(store, name).record
    except NotFoundError as error:
        found = [each for each in list_jobs(store) if each.spec.name == name]
        if not found:
            raise error from None
        if len(found) > 1:
            raise UsageError(
                f"{len(found)} jobs are named {name!r}",
                hint=f"say which: {', '.join(each.job_id for each in found[:5])}",
            ) from None
        return found[0]


def cancel(store: Store, job_id: str, now_s: float) -> JobRecord:
    """Ask a job's supervisor to end it; one that has ended is left as it is."""
    return record.request_cancel(store, job_id, now_s)


def wait(
    store: Store,
    job_id: str,
    *,
    timeout_s: float | None,
    settled: bool,
    monotonic: Callable[[], float],
    sleep: Callable[[float], None],
) -> JobRecord:
    """Wait until a job has ended or, with `settled`, until its own slices are gone as well.

    Raises DeadlineError while the job goes on.
    """
    began = monotonic()
    while True:
        found = record.load(store, job_id).record
        if found.is_settled if settled else found.is_ended:
            return found
        if timeout_s is not None and monotonic() - began >= timeout_s:
            raise DeadlineError(
                f"job {job_id!r} is still {found.state}: {found.why}",
                hint=f"run: tpuctl job wait {job_id}",
            )
        sleep(POLL_S)


def error_of(found: JobRecord) -> TpuctlError | None:
    """The error that an ended job is worth; None when it succeeded."""
    if found.state == JobState.SUCCEEDED:
        return None
    hint = f"run: tpuctl job logs {found.job_id}"
    if found.state == JobState.CANCELLED:
        return JobFailedError(f"job {found.job_id!r} was cancelled")
    last = found.attempt
    reason = last.reason if last and last.reason else found.why
    return _kind(last)(f"job {found.job_id!r} failed: {reason}", hint=hint)


def _kind(last: Attempt | None) -> type[TpuctlError]:
    """What a FAILED job is, by its last attempt; otherwise it failed by itself."""
    if last is not None and last.outcome == Outcome.PREEMPTED:
        return PreemptedError
    if last is not None and last.outcome == Outcome.REFUSED:
        return REFUSALS.get(last.refusal, CapacityError)
    return JobFailedError
