"""Ask jobs to end, and let an ended job begin again."""

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tpuctl.errors import NotFoundError, PartialFailureError, PreconditionError, TpuctlError
from tpuctl.jobs import client
from tpuctl.jobs.record import record_store
from tpuctl.jobs.record.decoding import JOB_ID
from tpuctl.jobs.record.job_retry import reopen_record
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.submit import notify_targets, shared_checkpoints
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs import supervision
from tpuctl.operations.jobs.events import (
    CancelRequested,
    JobNotice,
    JobRuntime,
    Noted,
    Reopened,
)
from tpuctl.store import Entry, Store

DELETIONS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class CancelResult:
    """The jobs that were asked to end, and the errors of the others by job id."""

    asked: list[JobRecord]
    errors: dict[str, TpuctlError]

    def raise_errors(self) -> None:
        """Raises the error of an only job, or PartialFailureError when some of several failed."""
        if not self.errors:
            return
        count = len(self.asked) + len(self.errors)
        job_id, first = next(iter(self.errors.items()))
        if count == 1:
            raise first
        raise PartialFailureError(
            f"{len(self.errors)} of {count} jobs were not cancelled: {job_id}: {first}",
            hint=f"run: tpuctl job cancel {' '.join(self.errors)}",
        )


def cancel(runtime: JobRuntime, names: Sequence[str]) -> Generator[JobNotice, None, CancelResult]:
    """Ask for the end of jobs, by id or name, and see that a supervisor carries it out.

    Raises NotFoundError, UsageError before anything is asked for.
    """
    store = runtime.store()
    jobs = {job.job_id: job for job in (client.describe(store, name) for name in names)}
    ended = {job_id: job.state for job_id, job in jobs.items() if job.is_ended}
    errors: dict[str, TpuctlError] = {}
    for job_id in jobs:
        try:
            jobs[job_id] = client.cancel(store, job_id, runtime.now())
        except TpuctlError as error:
            errors[job_id] = error
    if not all(job.is_settled for job in jobs.values()):
        yield from supervision.start_supervisor(runtime)
    asked = [job for job in jobs.values() if job.job_id not in errors]
    for job in asked:
        yield CancelRequested(job, ended.get(job.job_id))
        if job.replica is not None and job.job_id not in ended:
            name = job.replica.service
            yield Noted(
                f"another replica of service {name} takes its place; to end the service: "
                f"tpuctl service delete {name}"
            )
    return CancelResult(asked, errors)


@dataclass(frozen=True, slots=True)
class JobDeletion:
    """What `job delete` removes of one job; checkpoints are not among it."""

    job_id: str
    state: str
    """`half deleted` where an earlier deletion was interrupted after the record was gone."""
    generation: int | None
    """The generation of its record; None without a record."""
    files: Sequence[Entry]
    """Its workdir, logs, statuses and stacks."""

    @property
    def size_bytes(self) -> int:
        """The bytes of its files."""
        return sum(entry.size_bytes for entry in self.files)


def plan_deletion(runtime: JobRuntime, names: Sequence[str]) -> list[JobDeletion]:
    """What there is to delete of these jobs.

    Raises NotFoundError, PreconditionError for one that is open or keeps a slice.
    """
    store = runtime.store()
    return [
        _plan_one(runtime, job_id)
        for job_id in dict.fromkeys(_find_id(store, name) for name in names)
    ]


def delete_job(store: Store, planned: JobDeletion) -> None:
    """Delete a job's record, unless it has changed, and then its files.

    Raises PreconditionError when somebody has begun it again meanwhile.
    """
    job_id = planned.job_id
    try:
        if planned.generation is not None:
            store.delete(record_store.record_key(job_id), generation=planned.generation)
    except PreconditionError as error:
        raise PreconditionError(
            f"job {job_id!r} has changed meanwhile", hint=f"run: tpuctl job describe {job_id}"
        ) from error
    with ThreadPoolExecutor(DELETIONS_AT_ONCE) as threads:
        list(threads.map(lambda entry: store.delete(entry.key), planned.files))


def _find_id(store: Store, name: str) -> str:
    try:
        return client.describe(store, name).job_id
    except NotFoundError:
        if not (JOB_ID.fullmatch(name) and _files_of(store, name)):
            raise
        return name


def _plan_one(runtime: JobRuntime, job_id: str) -> JobDeletion:
    store = runtime.store()
    files = _files_of(store, job_id)
    try:
        stored = record_store.load(store, job_id)
    except NotFoundError:
        return JobDeletion(job_id, "half deleted", None, files)
    _require_deletable(runtime, stored.record)
    return JobDeletion(job_id, stored.record.state, stored.generation, files)


def _require_deletable(runtime: JobRuntime, job: JobRecord) -> None:
    job_id = job.job_id
    if not job.is_settled:
        verb, state = ("wait", "not settled") if job.is_ended else ("cancel", job.state)
        text = f"job {job_id!r} is {state}: only a job that has ended is deleted"
        raise PreconditionError(text, hint=f"run: tpuctl job {verb} {job_id}")
    attempt = job.attempt
    if job.kept and attempt and _exists(runtime, attempt.zone, job.kept):
        text = f"job {job_id!r} keeps slice {job.kept!r} (teardown: {job.spec.teardown})"
        raise PreconditionError(text, hint=f"run: tpuctl sweep --fix {job.kept}")


def _files_of(store: Store, job_id: str) -> list[Entry]:
    directory = record_store.job_directory(job_id)
    return [
        entry for folder in record_store.JOB_FILES for entry in store.list(f"{directory}/{folder}")
    ]


def _exists(runtime: JobRuntime, zone: str, queued_resource: str) -> bool:
    try:
        runtime.tpu.get_queued_resource(zone, queued_resource)
    except NotFoundError:
        return False
    return True


def retry(runtime: JobRuntime, name: str) -> Generator[JobNotice, None, JobRecord]:
    """Let a job that failed or was cancelled begin again, and see that a supervisor has it.

    A job that has not ended and takes secrets from the environment only gets their values again,
    those of its `notify` as well.
    Raises PreconditionError, UsageError, LocalIOError, ConflictError.
    """
    store = runtime.store()
    job = client.describe(store, name)
    needs_values = not job.is_ended and bool(
        job_secrets.references_to(job.spec.secrets, job_secrets.ENVIRONMENT)
        or notify_targets.known_values(job.spec, runtime.environ)
    )
    if not needs_values:
        reopen_record(job, runtime.now())  # what forbids it comes before what it would need
    job_secrets.resolve_values(job.spec.secrets, runtime.environ)
    shared_checkpoints.refuse_shared_checkpoints(store, job.spec, but=job.job_id)
    if not needs_values:
        job = client.reopen(store, job.job_id, runtime.now())
        yield Reopened(job)
    yield from supervision.hand_to_supervisor(runtime, job)
    return job
