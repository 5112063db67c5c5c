"""A job that has ended is tried again because somebody asked for it."""

from dataclasses import replace

from tpuctl.errors import PreconditionError
from tpuctl.jobs.record.status_text import with_status
from tpuctl.models.job import JobRecord, JobState


def reopen_record(record: JobRecord, now_s: float) -> JobRecord:
    """The job, queued again with all its tries and its whole budget.

    A slice of its own that was kept (`teardown: never` or `on-success`) is used again, any other
    attempt begins with a new one. Raises PreconditionError while it has not ended and settled, and
    when it succeeded.
    """
    if replica := record.replica:
        raise PreconditionError(
            f"job {record.job_id!r} is a replica of service {replica.service!r}, which has others "
            "in its place",
            hint=f"run: tpuctl service describe {replica.service}",
        )
    if not record.is_ended:
        raise PreconditionError(
            f"job {record.job_id!r} is {record.state}: it has not ended",
            hint=f"run: tpuctl job cancel {record.job_id}",
        )
    if record.state == JobState.SUCCEEDED:
        raise PreconditionError(
            f"job {record.job_id!r} has succeeded: there is nothing to try again",
            hint="to run it once more, submit its file: tpuctl job submit FILE",
        )
    if not record.is_settled:
        raise PreconditionError(
            f"the slice of job {record.job_id!r} is still being deleted",
            hint=f"run: tpuctl job wait {record.job_id}",
        )
    queued = replace(
        record,
        state=JobState.QUEUED,
        ended_s=None,
        ended_by_attempt=None,
        cancel_requested_s=None,
        retried_after=len(record.attempts),
        wanted_since_s=None,
        next_s=None,
        next_zone="",
    )
    return with_status(queued, "tried again by hand: waiting for a supervisor", now_s)
