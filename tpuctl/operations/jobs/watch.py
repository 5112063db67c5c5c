"""Watch a job until it has ended and its slices are gone."""

import time
from collections.abc import Generator

from tpuctl.errors import DeadlineError
from tpuctl.jobs.record import record_store
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs import unsupervised
from tpuctl.operations.jobs.events import JobChanged, JobNotice, JobRuntime

POLL_S = 0.5
SUPERVISOR_CHECK_S = 30.0
"""Between two looks whether anybody looks after a job that is waited for."""


def wait_until_settled(
    runtime: JobRuntime, job: JobRecord, timeout_s: float | None = None
) -> Generator[JobNotice, None, JobRecord]:
    """Wait for the end of a job, and yield each reason for which it waits.

    Raises DeadlineError after `timeout_s` seconds, while the job goes on; NotFoundError.
    """
    store, began_s = runtime.store(), time.monotonic()
    next_check_s, was_alone, told = began_s, False, ""
    generation = None
    while True:
        newest = record_store.generation(store, job.job_id)
        if generation is None or newest != generation:
            stored = record_store.load(store, job.job_id)
            job, generation = stored.record, stored.generation
            if job.status_text != told:
                told = job.status_text
                yield JobChanged(job)
        if job.is_settled:
            return job
        if timeout_s is not None and time.monotonic() - began_s >= timeout_s:
            raise _deadline_error(runtime, job)
        if time.monotonic() >= next_check_s:
            next_check_s = time.monotonic() + SUPERVISOR_CHECK_S
            alone = list(unsupervised.check_supervised(runtime, [job]))
            if not was_alone:
                yield from alone
            was_alone = bool(alone)
        runtime.sleep(POLL_S)


def _deadline_error(runtime: JobRuntime, job: JobRecord) -> DeadlineError:
    hint = f"run: tpuctl job wait {job.job_id}"
    if unsupervised.unsupervised_jobs(runtime, [job]):
        hint = f"nobody looks after it; run: {unsupervised.supervisor_command({job.owner})}"
    return DeadlineError(f"job {job.job_id!r} is still {job.state}: {job.status_text}", hint=hint)
