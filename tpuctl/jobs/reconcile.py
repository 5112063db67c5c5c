"""One step of a job's life as a pure function: record and world in, record and actions out.

    QUEUED -> WAITING -> PREPARING -> RUNNING -> SUCCEEDED | FAILED | CANCELLED
                 ^            ^           |
                 +-RECOVERING-+-----------+   preempted: a new slice; failed or lost: the same slice

The record is written before its actions are carried out, so every create has its intent on record.
Actions are repeated until the world shows their effect, so each must be harmless when repeated.
"""

import uuid
from dataclasses import dataclass, replace

from tpuctl.jobs import verdict
from tpuctl.jobs.actions import Action, wanted
from tpuctl.jobs.observed import ABSENT, Observed
from tpuctl.jobs.story import noted, told
from tpuctl.jobs.verdict import Verdict
from tpuctl.models.job import (
    Attempt,
    AttemptState,
    JobRecord,
    JobState,
    Outcome,
    Phase,
    counted,
)
from tpuctl.models.node import NodeState
from tpuctl.models.operation import unnamed
from tpuctl.models.queued_resource import QueuedResourceState

PATIENCE_S = 20.0
"""How long after its slice is READY a worker may refuse connections before people are told."""
ENDED_STATE = {
    Outcome.SUCCEEDED: JobState.SUCCEEDED,
    Outcome.CANCELLED: JobState.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Step:
    """The record to write, and then what to do."""

    record: JobRecord
    actions: tuple[Action, ...]


def reconcile(record: JobRecord, seen: Observed) -> Step:
    """Advance a job by what was seen."""
    record = _note_deleted(record, seen)
    if not record.is_ended:
        record = _advance(record, seen)
    return Step(record, tuple(wanted(record, seen)))


def _advance(record: JobRecord, seen: Observed) -> JobRecord:
    attempt = record.attempt
    if attempt is None:
        if record.cancel_requested_s is not None:
            return _end(record, JobState.CANCELLED, "cancelled before it began", seen)
        return _first_attempt(record, seen)
    if attempt.state == AttemptState.WAITING:
        return _waiting(record, attempt, seen)
    attempt = _with_reports(attempt, seen)
    record = _replaced(record, attempt)
    if attempt.state == AttemptState.STOPPING:
        return _stopping(record, attempt, seen)
    return _working(record, attempt, seen)


# ------------------------------------------------------------------ the life of an attempt


def _first_attempt(record: JobRecord, seen: Observed) -> JobRecord:
    if record.node is None:
        return _new_slice(record, seen)
    attempt = Attempt(
        number=1,
        zone=record.zone,
        node=record.node,
        state=AttemptState.PREPARING,
        owned=False,
        ready_s=seen.now_s,
    )
    return _begun(record, attempt, f"preparing the workers of {record.node}", seen)


def _new_slice(record: JobRecord, seen: Observed) -> JobRecord:
    number = len(record.attempts) + 1
    name = f"{record.job_id}-a{number}"
    attempt = Attempt(
        number=number,
        zone=record.zone,
        node=name,
        state=AttemptState.WAITING,
        owned=True,
        queued_resource=name,
        request_id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"tpuctl:{record.job_id}:{name}")),
        requested_s=seen.now_s,
    )
    text = f"requesting {record.accelerator_type} in {record.zone}"
    return _begun(record, attempt, text, seen)


def _same_slice(record: JobRecord, last: Attempt, seen: Observed) -> JobRecord:
    attempt = Attempt(
        number=last.number + 1,
        zone=last.zone,
        node=last.node,
        state=AttemptState.PREPARING,
        owned=last.owned,
        queued_resource=last.queued_resource,
        ready_s=seen.now_s,
        worker_count=last.worker_count,
    )
    return _begun(record, attempt, f"trying again on {last.node}", seen)


def _waiting(record: JobRecord, attempt: Attempt, seen: Observed) -> JobRecord:
    request = seen.requests.get(attempt.queued_resource or "")
    if found := verdict.of_waiting(record, attempt, request, seen.now_s, seen.refusal):
        return _finish(record, attempt, found, seen)
    if request is None or request == ABSENT:
        return told(record, seen.trouble, seen.now_s) if seen.trouble else record
    if attempt.accepted_s is None:
        attempt = replace(attempt, accepted_s=seen.now_s)
        record = _replaced(record, attempt)
    if request == QueuedResourceState.ACTIVE and seen.node == NodeState.READY:
        ready = replace(
            attempt,
            state=AttemptState.PREPARING,
            ready_s=seen.now_s,
            worker_count=seen.worker_count,
        )
        return _moved(record, ready, f"preparing {counted(seen.worker_count)}", seen)
    return told(
        record, f"{record.zone}: queued resource {attempt.queued_resource} is {request}", seen.now_s
    )


def _working(record: JobRecord, attempt: Attempt, seen: Observed) -> JobRecord:
    found = _gone(attempt, seen) or verdict.of_working(record, attempt, seen.now_s)
    if found and found.outcome in (Outcome.SUCCEEDED, Outcome.PREEMPTED) and not found.notice:
        return _finish(record, attempt, found, seen)
    if found:
        stopping = replace(
            attempt,
            state=AttemptState.STOPPING,
            stopping_s=seen.now_s,
            outcome=found.outcome,
            reason=found.reason,
        )
        return told(_replaced(record, stopping), f"stopping: {found.reason}", seen.now_s)
    if attempt.state == AttemptState.PREPARING and _all(attempt, Phase.PREPARED):
        running = replace(attempt, state=AttemptState.RUNNING, started_s=seen.now_s)
        return _moved(record, running, f"running on {counted(attempt.worker_count)}", seen)
    return told(record, _waits_for(attempt, seen.now_s) or record.why, seen.now_s)


def _waits_for(attempt: Attempt, now_s: float) -> str | None:
    """The worker that holds the others up, and why, where it is known."""
    for report in attempt.workers:
        if report.unreachable_s > 0:
            return f"worker {report.worker_id} does not answer"
        is_late = now_s - (attempt.ready_s or now_s) > PATIENCE_S
        if is_late and report.phase == Phase.CONNECTING and report.message:
            why = unnamed(report.worker_id, report.message)
            return f"waiting for worker {report.worker_id}: {why}"
    return None


def _stopping(record: JobRecord, attempt: Attempt, seen: Observed) -> JobRecord:
    """Wait until every worker is accounted for, and the node was looked at since; then judge."""
    found = _gone(attempt, seen)
    if found is None and (verdict.is_open(attempt, seen.now_s) or not _checked(attempt, seen)):
        return record
    outcome = attempt.outcome or Outcome.FAILED
    noticed = outcome == Outcome.PREEMPTED and found is not None and found.final
    if outcome == Outcome.CANCELLED or found is None or noticed:
        found = verdict.refined(attempt, Verdict(outcome, attempt.reason))
    return _finish(record, attempt, found, seen)


def _finish(record: JobRecord, attempt: Attempt, found: Verdict, seen: Observed) -> JobRecord:
    """End the attempt and decide what follows."""
    ended = replace(
        attempt,
        state=AttemptState.ENDED,
        ended_s=seen.now_s,
        outcome=found.outcome,
        reason=found.reason,
        refusal=found.refusal,
    )
    record = told(
        _replaced(record, ended),
        f"attempt {ended.number} {found.outcome}: {found.reason}",
        seen.now_s,
    )
    if record.cancel_requested_s is not None and found.outcome != Outcome.SUCCEEDED:
        return _end(record, JobState.CANCELLED, "cancelled", seen)
    if not found.final and verdict.may_restart(record):
        if found.outcome == Outcome.PREEMPTED:
            return _new_slice(record, seen)
        return _same_slice(record, ended, seen)
    state = ENDED_STATE.get(found.outcome, JobState.FAILED)
    return _end(record, state, found.reason, seen)


def _end(record: JobRecord, state: JobState, why: str, seen: Observed) -> JobRecord:
    return told(replace(record, state=state, ended_s=seen.now_s), why, seen.now_s)


# ------------------------------------------------------------------ what was seen


def _gone(attempt: Attempt, seen: Observed) -> Verdict | None:
    request = seen.requests.get(attempt.queued_resource or "")
    return verdict.of_slice(attempt, seen.node, request)


def _checked(attempt: Attempt, seen: Observed) -> bool:
    return attempt.stopping_s is not None and seen.node_checked_s > attempt.stopping_s


def _all(attempt: Attempt, phase: Phase) -> bool:
    return len(attempt.workers) == attempt.worker_count > 0 and all(
        report.phase == phase for report in attempt.workers
    )


def _with_reports(attempt: Attempt, seen: Observed) -> Attempt:
    """The newest reports, and the steps they tell of."""
    steps = [report.step for report in seen.workers if report.step is not None]
    resumed = [report.resume_step for report in seen.workers if report.resume_step is not None]
    return replace(
        attempt,
        queued_resource=attempt.queued_resource or seen.queued_resource,
        worker_count=attempt.worker_count or seen.worker_count,
        workers=seen.workers or attempt.workers,
        last_step=max([attempt.last_step, *steps]),
        resume_step=max([attempt.resume_step, *resumed]),
    )


def _note_deleted(record: JobRecord, seen: Observed) -> JobRecord:
    """A slice that we no longer want and that is gone is deleted: that is the proof."""
    gone = {name for name in record.unwanted if seen.requests.get(name) == ABSENT}
    if not gone:
        return record
    attempts = tuple(
        replace(attempt, deleted_s=seen.now_s) if attempt.queued_resource in gone else attempt
        for attempt in record.attempts
    )
    tell = noted if record.is_ended else told  # why it ended stays what people read
    text = f"deleted {', '.join(sorted(gone))}"
    return tell(replace(record, attempts=attempts), text, seen.now_s)


# ------------------------------------------------------------------ the record's own bookkeeping


def _begun(record: JobRecord, attempt: Attempt, text: str, seen: Observed) -> JobRecord:
    return _moved(replace(record, attempts=(*record.attempts, attempt)), attempt, text, seen)


def _moved(record: JobRecord, attempt: Attempt, text: str, seen: Observed) -> JobRecord:
    """The attempt entered a state, and the job with it."""
    state = JobState(attempt.state.value)
    if attempt.number > 1 and state != JobState.RUNNING:
        state = JobState.RECOVERING
    return told(replace(_replaced(record, attempt), state=state), text, seen.now_s)


def _replaced(record: JobRecord, attempt: Attempt) -> JobRecord:
    return replace(record, attempts=(*record.attempts[:-1], attempt))
