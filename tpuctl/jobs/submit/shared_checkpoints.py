"""Two open jobs never have one directory for their checkpoints: each would undo the other's steps.

It is asked before a job is written, and once more when it is there: of two that are submitted at
once, each of which did not see the other before, the later one gives way.
"""

from collections.abc import Iterator

from tpuctl.errors import (
    ConflictError,
    DamagedStateError,
    NotFoundError,
    PreconditionError,
    TpuctlError,
)
from tpuctl.jobs import client
from tpuctl.jobs.leases import lease
from tpuctl.jobs.record import record_store
from tpuctl.jobs.record.record_store import StoredRecord
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.store import Store


def refuse_shared_checkpoints(store: Store, spec: JobSpec, but: str = "") -> None:
    """Raises ConflictError when another open job writes there; `but` is the one that asks."""
    for other in _rivals(store, spec, but):
        raise _conflict(other)


def withdraw_if_shared(store: Store, created: StoredRecord) -> None:
    """Withdraw a job that was just written, if another one was there first.

    One that a supervisor has taken already was; when both are, both give way. Raises ConflictError.
    """
    mine = created.record
    for other in _rivals(store, mine.spec, mine.job_id):
        if other.fence or _place(store, other.job_id) < _place(store, mine.job_id):
            withdraw(store, created)
            raise _conflict(other)


def withdraw(store: Store, created: StoredRecord) -> None:
    """Take back a job, its lease and its workdir; one that was taken already is cancelled."""
    job_id = created.record.job_id
    try:
        store.delete(record_store.record_key(job_id), generation=created.generation)
    except PreconditionError:
        client.cancel(store, job_id, created.record.submitted_s)
        return
    found = lease.load_lease(store, job_id)
    if found is not None:
        lease.withdraw(store, found)
    store.delete(record_store.workdir_key(job_id))


def _rivals(store: Store, spec: JobSpec, but: str) -> Iterator[JobRecord]:
    """The open jobs with the same directory; one that cannot be read is none."""
    if spec.checkpoints is None:
        return
    for entry in list(store.list(lease.LEASES)):
        job_id = entry.key.removeprefix(lease.LEASES)
        other = None if job_id == but else _readable(store, job_id)
        if other is None or other.is_ended or other.spec.checkpoints is None:
            continue
        if _directory(other.spec) == _directory(spec):
            yield other


def _readable(store: Store, job_id: str) -> JobRecord | None:
    """A job that is not settled; none while it is being submitted, or when it cannot be read."""
    try:
        return record_store.load(store, job_id).record
    except (NotFoundError, DamagedStateError):
        return None


def _place(store: Store, job_id: str) -> tuple[float, str]:
    """The order of jobs that no supervisor has written to, by the storage service's clock."""
    entry = store.head(record_store.record_key(job_id))
    return (entry.updated_s if entry else float("inf"), job_id)


def _directory(spec: JobSpec) -> str:
    return spec.checkpoints.dir.rstrip("/") if spec.checkpoints else ""


def _conflict(other: JobRecord) -> TpuctlError:
    kept = f"keeps its checkpoints in {_directory(other.spec)}"
    return ConflictError(
        f"job {other.job_id!r} is {other.state} and {kept}",
        hint=f"wait for it: tpuctl job wait {other.job_id}; or change checkpoints.dir",
    )
