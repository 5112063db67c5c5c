"""A program that fails the same way twice, with nothing saved in between, will do so again."""

from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord


def is_looping(record: JobRecord) -> bool:
    """The last two failures are one: same exit, same traceback, and no new checkpoint.

    Where it is not known what was saved, or there is no traceback, nobody can say so.
    """
    failures = [
        each
        for each in record.attempts[record.retried_after :]
        if each.outcome in (AttemptOutcome.FAILED, AttemptOutcome.HUNG)
    ]
    if len(failures) < 2:
        return False
    before, last = failures[-2:]
    if before.saved_s is None or last.saved_s is None or last.saved_s > before.saved_s:
        return False
    cause = _cause(last)
    return cause is not None and cause == _cause(before)


def _cause(attempt: Attempt) -> tuple[str, object, object, str] | None:
    for report in attempt.workers:
        if report.worker_id == attempt.first_worker and report.traceback:
            return attempt.outcome or "", report.exit_status, report.signal, report.traceback
    return None
