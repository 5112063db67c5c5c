"""What a job's requests met, by its record: refused, granted, taken away."""

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType

from tpuctl.models.capacity.capacity_event import (
    CapacityEvent,
    CapacityEventKind,
    RefusalCause,
    request_key,
)
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord
from tpuctl.models.network_cause import NetworkCause, cause_of
from tpuctl.models.search import Candidate

Causes = Mapping[str, RefusalCause]
"""Name of a request -> why it was refused, where that is known better than the record tells."""
NO_CAUSES: Causes = MappingProxyType({})
OUTCOME_CAUSES = {
    AttemptOutcome.STOCKOUT: RefusalCause.STOCKOUT,
    AttemptOutcome.TIMEOUT: RefusalCause.STOCKOUT,
    AttemptOutcome.BLOCKED: RefusalCause.ADDRESSES,
}
"""What the end of an attempt without a slice says about its zone; a time-out: that it waited."""


def capacity_events(record: JobRecord, causes: Causes = NO_CAUSES) -> Iterator[CapacityEvent]:
    """What became of each request of a job, in the order of its attempts."""
    began: dict[str, float] = {}
    for attempt in record.attempts:
        name, begin_s = attempt.queued_resource, attempt.ready_s or attempt.chosen_s
        if attempt.owned and name:
            if begin_s is not None:
                began.setdefault(name, begin_s)  # a later attempt may run on the same slice
            yield from _lead_events(record, attempt, began.get(name), causes)
        for other in attempt.others:
            yield from _other_events(record, attempt, other, causes)


def _lead_events(
    record: JobRecord, attempt: Attempt, began_s: float | None, causes: Causes
) -> Iterator[CapacityEvent]:
    """What became of the request that led an attempt, whose slice there is since `began_s`."""
    name = attempt.queued_resource or ""
    kind = attempt.accelerator_type or record.accelerator_type
    event = _event_maker(record, attempt, name, attempt.zone, kind)
    asked_s, granted_s = attempt.requested_s, attempt.chosen_s or attempt.ready_s
    if asked_s is not None and granted_s is not None:
        yield event(CapacityEventKind.GRANTED, granted_s, after_s=max(0.0, granted_s - asked_s))
    if attempt.ended_s is None:
        return
    if began_s is None and (cause := causes.get(name) or _attempt_cause(attempt)):
        yield event(CapacityEventKind.REFUSED, attempt.ended_s, cause=cause)
    if began_s is not None and _was_preempted(record, attempt):
        life_s = max(0.0, attempt.ended_s - began_s)
        yield event(CapacityEventKind.PREEMPTED, attempt.ended_s, after_s=life_s)


def _other_events(
    record: JobRecord, attempt: Attempt, other: Candidate, causes: Causes
) -> Iterator[CapacityEvent]:
    """What became of a request beside the one that led."""
    event = _event_maker(record, attempt, other.name, other.zone, other.accelerator_type)
    if other.active_s is not None:
        asked_s = other.requested_s if other.requested_s is not None else other.active_s
        waited_s = max(0.0, other.active_s - asked_s)
        yield event(CapacityEventKind.GRANTED, other.active_s, after_s=waited_s)
    elif other.withdrawn_s is not None and (cause := causes.get(other.name) or _cause(other)):
        yield event(CapacityEventKind.REFUSED, other.withdrawn_s, cause=cause)


def _event_maker(
    record: JobRecord, attempt: Attempt, name: str, zone: str, accelerator_type: str
) -> partial[CapacityEvent]:
    return partial(
        CapacityEvent,
        request_key(zone, name),
        accelerator_type=accelerator_type or record.accelerator_type,
        zone=zone,
        provisioning=str(record.spec.resources.provisioning),
        slices=attempt.slices,
    )


def _attempt_cause(attempt: Attempt) -> RefusalCause | None:
    """Why an attempt without a slice was refused one; None where that says nothing of its zone."""
    if attempt.outcome == AttemptOutcome.TIMEOUT and attempt.accepted_s is None:
        return None
    if attempt.outcome in OUTCOME_CAUSES:
        return OUTCOME_CAUSES[attempt.outcome]
    is_refused = attempt.outcome == AttemptOutcome.REFUSED
    return _network_cause(attempt.refusal) if is_refused else None


def _cause(other: Candidate) -> RefusalCause | None:
    return RefusalCause.STOCKOUT if other.is_stockout else _network_cause(other.refusal)


def _network_cause(refusal: str) -> RefusalCause | None:
    """ADDRESSES for a refusal for want of addresses."""
    cause = cause_of(refusal)
    is_shortage = cause is not None and (cause.may_pass or cause == NetworkCause.ADDRESS_LIMIT)
    return RefusalCause.ADDRESSES if is_shortage else None


def _was_preempted(record: JobRecord, attempt: Attempt) -> bool:
    """Whether the service took the slice; a slice that somebody deleted ends the job."""
    is_end = record.ended_by_attempt == attempt.number and record.spec.restart.preemption
    return attempt.outcome == AttemptOutcome.PREEMPTED and not is_end
