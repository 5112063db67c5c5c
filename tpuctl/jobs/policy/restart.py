"""Whether another attempt follows the one that has just ended, and on which slice."""

from tpuctl.jobs.policy import attempt_end, zones
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord, Phase, WorkerReport

LOSS_LIMIT = 3
"""How many attempts in a row may lose workers of a slice before the slice is given up."""
BAD_SLICE_LIMIT = 3
"""How many slices in a row may be given up before the job fails: then it is not the slices."""
LONG_RUN_S = 600.0
"""A loss after the programs ran for so long is bad luck and not a bad slice."""
UNSTARTED_LIMIT = 2
"""A worker that did not get to the program this often will not."""
FAILURES = frozenset({AttemptOutcome.FAILED, AttemptOutcome.HUNG})
LOSSES = frozenset({AttemptOutcome.PREEMPTED, AttemptOutcome.LOST})


def may_restart(record: JobRecord) -> bool:
    """Whether the job file allows another attempt; preemptions and losses use no try."""
    last, restart = record.attempts[-1], record.spec.restart
    if last.outcome == AttemptOutcome.PREEMPTED:
        return restart.preemption
    if last.outcome in (AttemptOutcome.REFUSED, AttemptOutcome.BLOCKED):
        return bool(zones.unrefused_places(record))
    if last.outcome not in FAILURES:
        return last.outcome in (AttemptOutcome.LOST, AttemptOutcome.STOCKOUT)
    failures = [attempt for attempt in record.tries if attempt.outcome in FAILURES]
    counted = [failed for failed in failures if not _is_listed(failed, restart.exit_codes)]
    return _is_listed(last, restart.exit_codes) or len(counted) <= restart.failure


def no_restart_reason(record: JobRecord) -> str | None:
    """Why another attempt would end as the last one did; None when it may succeed."""
    last = record.attempts[-1]
    if any(attempt_end.has_other_workdir(report) for report in last.workers):
        return last.reason
    if last.outcome in FAILURES and _is_looping(record):
        return f"crash loop: the same failure twice, and no new checkpoint: {last.reason}"
    return _slice_reason(record) if must_replace_slice(record) else None


def _slice_reason(record: JobRecord) -> str | None:
    """Why a job cannot have another slice after its last one did not work; None when it can."""
    last = record.attempts[-1]
    if not last.owned:
        worker = _unstarted_worker(record)
        if worker is None:
            return last.reason
        return f"worker {worker} of {last.node} did not start twice: {last.reason}"
    if _bad_slices_before(record) + 1 >= BAD_SLICE_LIMIT:
        return f"{BAD_SLICE_LIMIT} slices in a row did not work: {last.reason}"
    return None


def _is_looping(record: JobRecord) -> bool:
    """The last two failures are one: same exit, same traceback, and no new checkpoint.

    Where it is not known what was saved, or there is no traceback, nobody can say so.
    """
    failures = [attempt for attempt in record.tries if attempt.outcome in FAILURES]
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


def must_replace_slice(record: JobRecord) -> bool:
    """Whether the newest attempt's slice must not be used again."""
    newest = _on_same_slice(record)[:LOSS_LIMIT]
    keeps_losing = len(newest) == LOSS_LIMIT and all(
        attempt.outcome == AttemptOutcome.LOST and not _ran_long(attempt) for attempt in newest
    )
    return keeps_losing or _unstarted_worker(record) is not None


def _unstarted_worker(record: JobRecord) -> int | None:
    """A worker that did not get to the program on two attempts of the newest slice."""
    last, *before = _on_same_slice(record)
    for worker in sorted(_not_started(last)):
        times = 1 + sum(worker in _not_started(old) | _lost_workers(old) for old in before)
        if times >= UNSTARTED_LIMIT:
            return worker
    return None


def _ran_long(attempt: Attempt) -> bool:
    """Whether the programs of an attempt ran for LONG_RUN_S seconds or more."""
    began_s, ended_s = attempt.started_s, attempt.stopping_s or attempt.ended_s
    return began_s is not None and ended_s is not None and ended_s - began_s >= LONG_RUN_S


def _lost_workers(attempt: Attempt) -> frozenset[int]:
    """The worker whose loss ended the attempt: if it is not back now, it did not start either."""
    first = attempt.first_worker
    if attempt.outcome != AttemptOutcome.LOST or first is None:
        return frozenset()
    return frozenset({first})


def _not_started(attempt: Attempt) -> frozenset[int]:
    has_failed = attempt.outcome in (AttemptOutcome.FAILED, AttemptOutcome.LOST)
    if not has_failed or attempt.started_s is not None:
        return frozenset()
    failed = {report.worker_id for report in attempt.workers if _failed_to_start(report)}
    first = attempt.first_worker
    return frozenset(failed | ({first} if first is not None else set()))


def _failed_to_start(report: WorkerReport) -> bool:
    if report.phase == Phase.LOST:
        return True
    has_failed = report.exit_status not in (0, None) or report.signal is not None
    return report.phase == Phase.ENDED and has_failed and not report.stopped


def _on_same_slice(record: JobRecord) -> list[Attempt]:
    """The newest attempt and those before it on the same slice, the newest first."""
    last = record.attempts[-1]
    same = []
    for attempt in reversed(record.tries):
        if (attempt.zone, attempt.node) != (last.zone, last.node):
            break
        if not attempt.node_ids or not last.node_ids or attempt.node_ids == last.node_ids:
            same.append(attempt)
    return same


def _bad_slices_before(record: JobRecord) -> int:
    """How many slices were given up in a row before the newest."""
    worn = 0
    for attempt in reversed(record.tries[:-1]):
        if attempt.outcome == AttemptOutcome.PREEMPTED:
            break
        worn += attempt.spent
    return worn


def _is_listed(attempt: Attempt, exit_codes: tuple[int, ...]) -> bool:
    return attempt.outcome == AttemptOutcome.FAILED and any(
        report.exit_status in exit_codes
        for report in attempt.workers
        if report.stage == "run" and not report.stopped
    )
