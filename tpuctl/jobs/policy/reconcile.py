"""One step of a job's life as a pure function: record and world in, record and actions out.

    QUEUED -> WAITING -> PREPARING -> RUNNING -> SUCCEEDED | FAILED | CANCELLED
                 ^            ^           |
                 +-RECOVERING-+-----------+   preempted: a new slice; failed or lost: the same slice

The record is written before its actions are carried out, so every create has its intent on record.
Actions are repeated until the world shows their effect, so each must be harmless when repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpuctl.jobs.policy import (
    attempt_end,
    attempts,
    restart,
    search,
    slice_end,
    worker_timeouts,
    zones,
)
from tpuctl.jobs.policy.actions import Action, required_actions
from tpuctl.jobs.policy.attempts import enter_state, replace_attempt
from tpuctl.jobs.policy.observation import ABSENT, JobObservation
from tpuctl.jobs.policy.slice_end import AttemptEnd
from tpuctl.jobs.record.status_text import (
    format_duration,
    format_moment,
    switch_warning,
    with_event,
    with_status,
)
from tpuctl.models.job import (
    UNSEEN_S,
    Attempt,
    AttemptOutcome,
    AttemptState,
    EventKind,
    JobRecord,
    JobState,
    Phase,
    SaveWait,
    WorkerReport,
    workers_text,
)
from tpuctl.models.node import NodeState
from tpuctl.models.operation import without_worker_name
from tpuctl.models.queued_resource import QueuedResourceState
from tpuctl.models.search import Candidate

CONNECT_WARNING_S = 20.0
"""How long after its slice is READY a worker may refuse connections before people are told."""
MAX_REPORTED_REASONS = 3
"""Why a slice is not deleted yet, per job: a text that differs each time is not news."""
LINE_CHARS = 500
"""No longer are the last lines of a worker, as the record keeps them."""
DECIDED_OUTCOMES = frozenset({AttemptOutcome.CANCELLED, AttemptOutcome.TIMEOUT})
"""What was decided here stays, whatever becomes of the slice meanwhile."""
ATTEMPT_TIMES = (
    *("requested_s", "accepted_s", "ready_s", "started_s", "stopping_s"),
    *("ended_s", "deleted_s", "awaited_s", "chosen_s", "provisioning_s", "first_step_s"),
)
CANDIDATE_TIMES = ("requested_s", "accepted_s", "active_s", "withdrawn_s", "deleted_s")
RECORD_TIMES = ("wanted_since_s", "ended_s")
ENDED_STATE = {
    AttemptOutcome.SUCCEEDED: JobState.SUCCEEDED,
    AttemptOutcome.CANCELLED: JobState.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class ReconcileStep:
    """The record to write, and the actions to carry out after that."""

    record: JobRecord
    actions: tuple[Action, ...]


def reconcile(record: JobRecord, seen: JobObservation) -> ReconcileStep:
    """Advance a job by what was observed. Pure: no call, no clock."""
    record = _note_deleted(_clamp_to_now(record, seen.now_s), seen)
    if not record.is_ended:
        record = _advance(record, seen)
    elif record.unwanted and seen.trouble:
        record = _with_deletion_trouble(record, seen)
    return ReconcileStep(record, tuple(required_actions(record, seen)))


def _advance(record: JobRecord, seen: JobObservation) -> JobRecord:
    attempt = record.attempt
    if attempt is None or attempt.state == AttemptState.ENDED:
        return attempts.begin_next_attempt(record, seen)
    if attempt.state == AttemptState.WAITING:
        return _advance_waiting(record, attempt, seen)
    record = _with_switch(replace_attempt(record, _with_reports(attempt, seen)), attempt, seen)
    attempt = record.attempts[-1]
    if attempt.state == AttemptState.STOPPING:
        return _advance_stopping(record, attempt, seen)
    return _advance_working(record, attempt, seen)


# ------------------------------------------------------------------ the life of an attempt


def _advance_waiting(record: JobRecord, attempt: Attempt, seen: JobObservation) -> JobRecord:
    before = attempt.queued_resource
    if record.cancel_requested_s is None:
        attempt = search.drop_failed(record, search.note_states(attempt, seen), seen)
        attempt = search.note_states(search.choose_slice(record, attempt, seen), seen)
    if attempt.queued_resource != before:  # what was seen are the nodes of another request
        seen = replace(seen, node=None, node_checked_s=0.0, node_ids=(), worker_count=0)
        seen = replace(seen, created_s=None)
    record = replace_attempt(record, attempt)
    if found := attempt_end.end_of_waiting(record, attempt, seen):
        return _finish(record, attempt, found, seen)
    request = seen.requests.get(attempt.queued_resource or "")
    if request == QueuedResourceState.ACTIVE and seen.node == NodeState.READY:
        ready = replace(
            attempt,
            state=AttemptState.PREPARING,
            ready_s=seen.now_s,
            node_ids=seen.node_ids,
            worker_count=seen.worker_count,
        )
        text = f"preparing {workers_text(seen.worker_count)}"
        return enter_state(replace(record, wanted_since_s=None), ready, text, seen)
    return _advance_queued(record, attempt, seen)


def _advance_queued(record: JobRecord, attempt: Attempt, seen: JobObservation) -> JobRecord:
    """The requests wait; one is given up for another place when that takes too long."""
    later = search.next_fallback(record, attempt, seen)
    if later is not None and seen.now_s >= later.due_s:
        waited = format_duration(seen.now_s - (later.request.accepted_s or seen.now_s))
        kind, zone = later.request.accelerator_type or record.accelerator_type, later.request.zone
        found = AttemptEnd(AttemptOutcome.STOCKOUT, f"no {kind} in {zone} for {waited}")
        if len(search.open_requests(attempt)) == 1:
            return _finish(record, attempt, found, seen)
        attempt = search.drop_request(record, attempt, later.request.name, found, seen.now_s)
        later = None
    attempt = search.grow_search(replace_attempt(record, attempt), attempt, seen)
    record = replace_attempt(record, attempt)
    text = _waiting_text(record, attempt, seen)
    if text is None:
        return record
    next_zone = zones.place_text(record, later.place) if later else ""
    waiting = replace(record, next_s=later.due_s if later else None, next_zone=next_zone)
    return with_status(waiting, text, seen.now_s)


def _waiting_text(record: JobRecord, attempt: Attempt, seen: JobObservation) -> str | None:
    """What the requests wait for; None while nothing new is known of any."""
    names = {each.name for each in search.open_requests(attempt)}
    if len(names) > 1:
        is_known = not names.isdisjoint(seen.requests)
        return search.search_text(record, attempt, seen.requests) if is_known else seen.trouble
    request = seen.requests.get(attempt.queued_resource or "")
    if request is None or request == ABSENT:
        return seen.trouble
    text = f"{attempt.zone}: queued resource {attempt.queued_resource} is {request}"
    if request == QueuedResourceState.WAITING_FOR_RESOURCES:
        text += f" since {format_moment(attempt.accepted_s or seen.now_s, seen.now_s)}"
    return text


def _advance_working(record: JobRecord, attempt: Attempt, seen: JobObservation) -> JobRecord:
    found = _slice_end(attempt, seen) or attempt_end.end_of_working(record, attempt, seen)
    if found:
        found = _with_final_reports(attempt, found, seen)
    if found and (found.is_gone or found.outcome == AttemptOutcome.SUCCEEDED):
        return _finish(record, attempt, found, seen)
    if found:
        stopping = replace(
            attempt,
            state=AttemptState.STOPPING,
            stopping_s=seen.now_s,
            outcome=found.outcome,
            reason=found.reason,
            first_worker=found.first_worker,
        )
        record = replace_attempt(record, stopping)
        return with_status(record, f"stopping: {found.reason}", seen.now_s)
    if attempt.state == AttemptState.PREPARING and _all(attempt, Phase.PREPARED):
        running = replace(attempt, state=AttemptState.RUNNING, started_s=seen.now_s)
        text = f"running on {workers_text(attempt.worker_count)}"
        return enter_state(record, running, text, seen)
    return with_status(record, _waits_for(attempt, seen.now_s) or record.why, seen.now_s)


def _waits_for(attempt: Attempt, now_s: float) -> str | None:
    """The worker that holds the others up, and why, where it is known."""
    for report in attempt.workers:
        if report.unreachable_s > 0:
            return f"worker {report.worker_id} does not answer"
        is_late = now_s - (attempt.ready_s or now_s) > CONNECT_WARNING_S
        if is_late and report.phase == Phase.CONNECTING and report.message:
            why = without_worker_name(report.worker_id, report.message)
            return f"waiting for worker {report.worker_id}: {why}"
    return None


def _advance_stopping(record: JobRecord, attempt: Attempt, seen: JobObservation) -> JobRecord:
    """Wait until every worker is accounted for, and the node was looked at since; then judge."""
    found = _slice_end(attempt, seen)
    is_pending = attempt_end.has_pending_reports(attempt, seen)
    is_checked = attempt.stopping_s is not None and seen.node_checked_s > attempt.stopping_s
    if found is None and (is_pending or not is_checked):
        unasked = seen.trouble is not None and not is_pending
        return with_status(record, f"stopping: {seen.trouble}", seen.now_s) if unasked else record
    outcome = attempt.outcome or AttemptOutcome.FAILED
    noticed = outcome == AttemptOutcome.PREEMPTED and found is not None and found.final
    is_gone = found is not None and found.is_gone
    if outcome in DECIDED_OUTCOMES or found is None or noticed:
        judged = AttemptEnd(outcome, attempt.reason, first_worker=attempt.first_worker)
        found = replace(attempt_end.refine_end(attempt, judged, seen), is_gone=is_gone)
    return _finish(record, attempt, _with_final_reports(attempt, found, seen), seen)


def _finish(
    record: JobRecord, attempt: Attempt, found: AttemptEnd, seen: JobObservation
) -> JobRecord:
    """End the attempt and decide what follows."""
    first = attempt.first_worker if found.first_worker is None else found.first_worker
    ended = replace(
        attempt,
        state=AttemptState.ENDED,
        ended_s=seen.now_s,
        outcome=found.outcome,
        reason=found.reason,
        refusal=found.refusal,
        first_worker=first,
        saved_s=seen.saved_s,
        spent=found.is_gone,
        workers=tuple(_trim_report(report, first) for report in attempt.workers),
    )
    if ended.owned and worker_timeouts.is_dead(ended, first, seen):
        ended = replace(ended, spent=True)
    ended = search.withdraw_others(ended, seen.now_s, found.reason)
    text = f"attempt {ended.number} {found.outcome}: {found.reason}"
    record = with_status(replace_attempt(record, ended), text, seen.now_s)
    if record.cancel_requested_s is not None and found.outcome != AttemptOutcome.SUCCEEDED:
        return attempts.end_job(record, JobState.CANCELLED, "cancelled", seen)
    judged = replace(record, ended_by_attempt=ended.number)
    if found.final or not restart.may_restart(record):
        state = ENDED_STATE.get(found.outcome, JobState.FAILED)
        return attempts.end_job(judged, state, found.reason, seen)
    if why := restart.no_restart_reason(record):
        return attempts.end_job(judged, JobState.FAILED, why, seen)
    if restart.must_replace_slice(record):
        record = replace_attempt(record, replace(ended, spent=True))
    return attempts.begin_next_attempt(record, seen)


# ------------------------------------------------------------------ what was seen


def _slice_end(attempt: Attempt, seen: JobObservation) -> AttemptEnd | None:
    request = seen.requests.get(attempt.queued_resource or "")
    return slice_end.end_by_slice(attempt, seen.node, request, seen.node_ids)


def _with_final_reports(attempt: Attempt, found: AttemptEnd, seen: JobObservation) -> AttemptEnd:
    """A slice may be gone because its job was done: the workers' last words decide."""
    if not seen.final_reports or found.outcome not in restart.LOSSES:
        return found
    return attempt_end.end_by_final_reports(attempt, found, seen.final_reports)


def _all(attempt: Attempt, phase: Phase) -> bool:
    return len(attempt.workers) == attempt.worker_count > 0 and all(
        report.phase == phase for report in attempt.workers
    )


def _with_reports(attempt: Attempt, seen: JobObservation) -> Attempt:
    """The newest reports, and the steps they tell of."""
    steps = [report.step for report in seen.workers if report.step is not None]
    resumed = [report.resume_step for report in seen.workers if report.resume_step is not None]
    waits = [report.save_waits for report in seen.workers]
    tables = (report.step_times for report in seen.workers)
    known = replace(
        attempt,
        queued_resource=attempt.queued_resource or seen.queued_resource,
        node_ids=attempt.node_ids or seen.node_ids,
        worker_count=attempt.worker_count or seen.worker_count,
        workers=tuple(map(_without_tables, seen.workers)) or attempt.workers,
        ran_s=_ran_s(seen.workers) or attempt.ran_s,
        step_times=next((table for table in tables if table), attempt.step_times),
        save_waits=max([attempt.save_waits, *waits], key=_waited_s),
        first_step_s=attempt.first_step_s or (seen.now_s if steps else None),
        last_step=max([attempt.last_step, *steps]),
        resume_step=max([attempt.resume_step, *resumed]),
    )
    return replace(known, awaited_s=worker_timeouts.awaited_s(known, seen.now_s))


def _ran_s(workers: Sequence[WorkerReport]) -> float | None:
    """For how long the program of the slowest worker ran; None while one runs or where one is lost.

    A worker without a report of the end may have gone on for longer.
    """
    known = [report.ran_s for report in workers if report.ran_s is not None]
    return max(known) if known and len(known) == len(workers) else None


def _waited_s(waits: tuple[SaveWait, ...]) -> float:
    """For how long a program waited altogether."""
    return waits[-1].waited_s if waits else 0.0


def _without_tables(report: WorkerReport) -> WorkerReport:
    """The attempt has one worker's: those of all would fill the record."""
    if not report.step_times and not report.save_waits:
        return report
    return replace(report, step_times={}, save_waits=())


def _with_switch(record: JobRecord, before: Attempt, seen: JobObservation) -> JobRecord:
    """A warning says once when a slice of their own could not delete itself."""
    proof = next((report.switch for report in seen.workers if report.worker_id == 0), None)
    if proof is None or any(report.switch == proof for report in before.workers[:1]):
        return record
    text = switch_warning(proof, record.usd_per_hour)
    return _with_new_event(record, EventKind.SWITCH, text, seen.now_s) if text else record


def _with_new_event(record: JobRecord, kind: EventKind, text: str, now_s: float) -> JobRecord:
    """The record with the event, unless it has one of the same kind and text."""
    is_known = any((event.kind, event.text) == (kind, text) for event in record.events)
    return record if is_known else with_event(record, kind, text, now_s)


def _trim_report(report: WorkerReport, first: int | None) -> WorkerReport:
    """What a record keeps of a worker: the last words of the one that was first, and no others."""
    if report.worker_id != first:
        return replace(report, last_lines=(), traceback="")
    return replace(report, last_lines=tuple(line[:LINE_CHARS] for line in report.last_lines))


def _note_deleted(record: JobRecord, seen: JobObservation) -> JobRecord:
    """A slice that we no longer want and that is gone is deleted: that is the proof."""
    record = _note_withdrawn(record, seen)
    gone = {
        attempt.queued_resource
        for attempt in record.attempts
        if attempt.queued_resource in record.unwanted and _is_gone(attempt, seen)
    }
    if not gone:
        return record
    settled = tuple(
        replace(attempt, deleted_s=seen.now_s) if attempt.queued_resource in gone else attempt
        for attempt in record.attempts
    )
    text = f"deleted {', '.join(sorted(str(name) for name in gone))}"
    record = replace(record, attempts=settled)
    if record.is_ended:  # why it ended stays what people read
        return with_event(record, EventKind.DELETED, text, seen.now_s)
    return with_status(record, text, seen.now_s)


def _note_withdrawn(record: JobRecord, seen: JobObservation) -> JobRecord:
    """Every request that lost and that is gone; what it cost until then is reported."""
    known = replace(
        record, attempts=tuple(search.note_others(each, seen) for each in record.attempts)
    )
    record = known
    for attempt in known.attempts:
        for other in attempt.others:
            if other.name not in known.unwanted or not _is_withdrawn(other, seen):
                continue
            gone = replace(other, deleted_s=seen.now_s)
            record = search.replace_request(record, gone)
            text = f"withdrew {zones.place_text(record, gone)}: {gone.billed_s or 0.0:.0f} s billed"
            record = with_event(record, EventKind.DELETED, text, seen.now_s)
    return record


def _is_withdrawn(request: Candidate, seen: JobObservation) -> bool:
    if seen.requests.get(request.name) != ABSENT:
        return False
    was_seen = request.accepted_s is not None or bool(request.refusal) or request.is_stockout
    return _is_surely_absent(request.withdrawn_s, seen, was_seen=was_seen)


def _is_gone(attempt: Attempt, seen: JobObservation) -> bool:
    """Absent; one that was never seen may be on its way still, its create's reply lost."""
    if seen.requests.get(attempt.queued_resource or "") != ABSENT:
        return False
    was_seen = attempt.accepted_s is not None or attempt.ready_s is not None
    return _is_surely_absent(attempt.ended_s, seen, was_seen=was_seen or bool(attempt.refusal))


def _is_surely_absent(since_s: float | None, seen: JobObservation, *, was_seen: bool) -> bool:
    """Asked again since it was given up: it may have ended by a wrong answer."""
    given_up_s = since_s if since_s is not None else seen.now_s
    return seen.looked_s >= given_up_s + (0.0 if was_seen else UNSEEN_S)


def _with_deletion_trouble(record: JobRecord, seen: JobObservation) -> JobRecord:
    """A warning says once what keeps a slice of an ended job from going."""
    told = sum(event.kind == EventKind.NOT_DELETED for event in record.events)
    if told >= MAX_REPORTED_REASONS:
        return record
    text = f"its slice is not deleted yet: {seen.trouble}"
    return _with_new_event(record, EventKind.NOT_DELETED, text, seen.now_s)


def _clamp_to_now(record: JobRecord, now_s: float) -> JobRecord:
    """The record with every time that is still to come moved to now.

    The clock was set back, or that of the machine that wrote it was ahead of this one's: nobody
    waits for it to catch up.
    """
    attempts = tuple(_attempt_until(attempt, now_s) for attempt in record.attempts)
    return replace(record, attempts=attempts, **_future_times(record, RECORD_TIMES, now_s))


def _attempt_until(attempt: Attempt, now_s: float) -> Attempt:
    others = tuple(
        replace(other, **_future_times(other, CANDIDATE_TIMES, now_s)) for other in attempt.others
    )
    return replace(attempt, others=others, **_future_times(attempt, ATTEMPT_TIMES, now_s))


def _future_times(
    dated: JobRecord | Attempt | Candidate, names: tuple[str, ...], now_s: float
) -> Any:
    times = {name: getattr(dated, name) for name in names}
    return {name: now_s for name, time_s in times.items() if time_s is not None and time_s > now_s}
