"""How a job's next attempt begins: on which slice, in which zone, and what it waits for."""

from dataclasses import replace

from tpuctl.jobs.policy import attempt_end, budget, search, zones
from tpuctl.jobs.policy.observation import JobObservation
from tpuctl.jobs.policy.zones import ZoneChoice
from tpuctl.jobs.record.status_text import with_status
from tpuctl.models.job import Attempt, AttemptState, JobRecord, JobState
from tpuctl.models.search import Place


def begin_next_attempt(record: JobRecord, seen: JobObservation) -> JobRecord:
    """The record with its next attempt begun, or waiting for what that needs.

    A dead slice holds quota, so the next one is requested when it is gone.
    """
    if record.cancel_requested_s is not None:
        why = "cancelled" if record.attempts else "cancelled before it began"
        return end_job(record, JobState.CANCELLED, why, seen)
    if spent := budget.stop_reason(record, seen.now_s):
        return end_job(record, JobState.FAILED, spent, seen)
    if seen.blocked_by:
        return wait_for_slice(record, ZoneChoice(why=seen.blocked_by), seen)
    last = record.attempt
    if last is not None and last.is_usable:
        return _same_slice(record, last, seen)
    if record.node is not None and (last is None or last.number <= record.retried_after):
        return _on_node(record, record.node, seen)
    return _in_some_zone(record, seen)


def wait_for_slice(record: JobRecord, choice: ZoneChoice, seen: JobObservation) -> JobRecord:
    """The record of a job without an open attempt: why it waits, when and where it goes on."""
    state = JobState.RECOVERING if _had_slice(record) else JobState.WAITING
    stated = replace(record, state=state, next_s=choice.next_s, next_zone=choice.next_zone)
    return with_status(stated, choice.why or record.why, seen.now_s)


def enter_state(record: JobRecord, attempt: Attempt, text: str, seen: JobObservation) -> JobRecord:
    """The record after its attempt has entered a state, which is the job's state as well."""
    state = JobState(attempt.state.value)
    if state != JobState.RUNNING and _had_slice(record, attempt.number):
        state = JobState.RECOVERING
    stated = replace(replace_attempt(record, attempt), state=state, next_s=None, next_zone="")
    return with_status(stated, text, seen.now_s)


def restart_stopping_wait(record: JobRecord, now_s: float) -> JobRecord:
    """The record, whose stopping attempt waits its whole time once more.

    After a takeover nobody has listened for a while: a worker that is silent now may be the reason
    why the others failed.
    """
    attempt = record.attempt
    if attempt is None or attempt.state != AttemptState.STOPPING:
        return record
    return replace_attempt(record, replace(attempt, stopping_s=now_s))


def replace_attempt(record: JobRecord, attempt: Attempt) -> JobRecord:
    """The record with its newest attempt changed."""
    kind = attempt.accelerator_type or record.accelerator_type
    attempts = (*record.attempts[:-1], attempt)
    return replace(record, attempts=attempts, zone=attempt.zone, accelerator_type=kind)


def end_job(record: JobRecord, state: JobState, why: str, seen: JobObservation) -> JobRecord:
    """The record of a job that runs no more."""
    over = replace(record, state=state, ended_s=seen.now_s, next_s=None, next_zone="")
    return with_status(over, why, seen.now_s)


def _in_some_zone(record: JobRecord, seen: JobObservation) -> JobRecord:
    if record.wanted_since_s is None:
        record = replace(record, wanted_since_s=seen.now_s)
    if attempt_end.is_overdue(record, seen.now_s):
        missing = zones.missing_addresses(record, seen.zone_health or {})
        why = "; ".join([attempt_end.no_slice_text(record), *missing])
        return end_job(record, JobState.FAILED, why, seen)
    if record.unwanted or seen.zone_health is None or _changed_s(record) >= seen.now_s:
        is_queued = record.state == JobState.QUEUED
        return record if is_queued else wait_for_slice(record, ZoneChoice(), seen)
    choice = zones.choose_places(record, seen.zone_health, seen.now_s)
    if not choice.places:
        return wait_for_slice(record, choice, seen)
    return _new_slice(record, choice.places, seen)


def _changed_s(record: JobRecord) -> float:
    """What was known of zones and quota before this is no longer true."""
    last = record.attempt
    return max(last.ended_s or 0.0, last.deleted_s or 0.0) if last else -1.0


def _on_node(record: JobRecord, node: str, seen: JobObservation) -> JobRecord:
    attempt = Attempt(
        number=len(record.attempts) + 1,
        zone=record.zone,
        node=node,
        state=AttemptState.PREPARING,
        owned=False,
        accelerator_type=record.accelerator_type,
        ready_s=seen.now_s,
    )
    return _begin(record, attempt, f"preparing the workers of {node}", seen)


def _new_slice(record: JobRecord, places: tuple[Place, ...], seen: JobObservation) -> JobRecord:
    attempt = search.new_attempt(record, places, seen.now_s)
    count = f"{attempt.slices} x " if attempt.slices > 1 else ""
    where = " or ".join(dict.fromkeys(place.zone for place in places))
    types = " or ".join(dict.fromkeys(place.accelerator_type for place in places))
    return _begin(record, attempt, f"requesting {count}{types} in {where}", seen)


def _same_slice(record: JobRecord, last: Attempt, seen: JobObservation) -> JobRecord:
    attempt = Attempt(
        number=last.number + 1,
        zone=last.zone,
        node=last.node,
        state=AttemptState.PREPARING,
        owned=last.owned,
        accelerator_type=last.accelerator_type,
        queued_resource=last.queued_resource,
        slices=last.slices,
        ready_s=seen.now_s,
        worker_count=last.worker_count,
    )
    return _begin(record, attempt, f"trying again on {last.node}", seen)


def _begin(record: JobRecord, attempt: Attempt, text: str, seen: JobObservation) -> JobRecord:
    return enter_state(replace(record, attempts=(*record.attempts, attempt)), attempt, text, seen)


def _had_slice(record: JobRecord, before: int | None = None) -> bool:
    """An attempt (before the one of that number) had a slice since the job was last queued."""
    tries = (attempt for attempt in record.tries if before is None or attempt.number < before)
    return any(attempt.ready_s is not None for attempt in tries)
