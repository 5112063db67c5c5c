"""Ask jobs to end, and let an ended job begin anew."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from tpuctl.errors import PartialFailureError, TpuctlError
from tpuctl.jobs import client
from tpuctl.jobs.record.job_retry import reopen_record
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.submit import shared_checkpoints
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs import supervision
from tpuctl.operations.jobs.events import CancelRequested, JobNotice, JobRuntime, Reopened


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
    return CancelResult(asked, errors)


def retry(runtime: JobRuntime, name: str) -> Generator[JobNotice, None, JobRecord]:
    """Let a job that failed or was cancelled begin anew, and see that a supervisor has it.

    A job that has not ended and takes secrets from the environment only gets their values again.
    Raises PreconditionError, UsageError, LocalIOError, ConflictError.
    """
    store = runtime.store()
    job = client.describe(store, name)
    needs_values = not job.is_ended and bool(
        job_secrets.references_to(job.spec.secrets, job_secrets.ENVIRONMENT)
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
