"""The requests of one attempt, side by side: which are added and withdrawn, and which one wins.

One request leads: the attempt has its zone, its name and its type. The first that is ACTIVE is
chosen: that choice is written to the record before any worker is touched and before another request
is withdrawn, so that whoever goes on with the job knows the one slice that its program may run on.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tpuctl.jobs.policy import attempt_end, zones
from tpuctl.jobs.policy.observation import ABSENT, JobObservation
from tpuctl.jobs.policy.slice_end import AttemptEnd
from tpuctl.jobs.policy.zones import Fallback
from tpuctl.models.job import Attempt, AttemptOutcome, AttemptState, JobRecord
from tpuctl.models.queued_resource import QueuedResourceState
from tpuctl.models.search import Candidate, Place

PASSING = frozenset({AttemptOutcome.STOCKOUT, AttemptOutcome.PREEMPTED})
"""Ends of a request after which its zone may be asked again."""

SERVED = frozenset({QueuedResourceState.PROVISIONING, QueuedResourceState.ACTIVE})
"""A request in one of these has got capacity."""


def new_attempt(record: JobRecord, places: tuple[Place, ...], now_s: float) -> Attempt:
    """The attempt that asks each of the places for a slice, the first one leading."""
    number, lead = len(record.attempts) + 1, places[0]
    name = f"{record.job_id}-a{number}"
    attempt = Attempt(
        number=number,
        zone=lead.zone,
        node=name,
        state=AttemptState.WAITING,
        owned=True,
        accelerator_type=lead.accelerator_type,
        queued_resource=name,
        request_id=_request_id(record, name),
        slices=record.spec.resources.num_slices,
        requested_s=now_s,
    )
    return add_requests(record, attempt, places[1:], now_s)


def add_requests(
    record: JobRecord, attempt: Attempt, places: Iterable[Place], now_s: float
) -> Attempt:
    """The attempt that also asks these places: the intent, which is written before the calls."""
    others = list(attempt.others)
    for place in places:
        name = f"{record.job_id}-a{attempt.number}c{len(others) + 2}"
        request_id = _request_id(record, name)
        others.append(Candidate(name, place.zone, place.accelerator_type, request_id, now_s))
    return replace(attempt, others=tuple(others))


def open_requests(attempt: Attempt) -> tuple[Candidate, ...]:
    """The requests of which one may still win, the one that leads first."""
    return _lead(attempt), *(each for each in attempt.others if each.is_open)


def led_by(attempt: Attempt, name: str | None) -> Attempt:
    """The same attempt with another of its requests in the lead."""
    if name == attempt.queued_resource:
        return attempt
    lead = next(each for each in attempt.others if each.name == name)
    before = _lead(attempt)
    return replace(
        attempt,
        zone=lead.zone,
        node=lead.name,
        accelerator_type=lead.accelerator_type,
        queued_resource=lead.name,
        request_id=lead.request_id,
        requested_s=lead.requested_s,
        accepted_s=lead.accepted_s,
        provisioning_s=None,
        others=tuple(before if each is lead else each for each in attempt.others),
    )


def drop_failed(record: JobRecord, attempt: Attempt, seen: JobObservation) -> Attempt:
    """The attempt without the requests that will not be granted; the last open one is kept."""
    lead = attempt.queued_resource
    for request in open_requests(attempt):
        about = led_by(attempt, request.name)
        known = seen if request.name == lead else replace(seen, node=None)  # it is the lead's
        found = attempt_end.end_of_request(about, known)
        if found and len(open_requests(attempt)) > 1:
            attempt = drop_request(record, attempt, request.name, found, seen.now_s)
    return attempt


def drop_request(
    record: JobRecord, attempt: Attempt, name: str, found: AttemptEnd, now_s: float
) -> Attempt:
    """The attempt with one of several open requests withdrawn, because it ended like that."""
    if name == attempt.queued_resource:
        attempt = led_by(attempt, _preferred(record, open_requests(attempt)[1:]).name)
    is_stockout = found.outcome in PASSING and not found.final
    refusal = "" if is_stockout else found.refusal or AttemptOutcome.REFUSED.value
    return _withdraw(attempt, {name}, now_s, found.reason, is_stockout=is_stockout, refusal=refusal)


def choose_slice(record: JobRecord, attempt: Attempt, seen: JobObservation) -> Attempt:
    """The attempt whose slice is chosen, once one of its requests is ACTIVE; the others go."""
    if attempt.chosen_s is not None:
        return attempt
    granted = [
        request
        for request in open_requests(attempt)
        if seen.requests.get(request.name) == QueuedResourceState.ACTIVE
    ]
    if not granted:
        return attempt
    winner = _preferred(record, granted)
    attempt = replace(led_by(attempt, winner.name), chosen_s=seen.now_s)
    return withdraw_others(attempt, seen.now_s, f"{zones.place_text(record, winner)} was granted")


def withdraw_others(attempt: Attempt, now_s: float, reason: str) -> Attempt:
    """The attempt with every request but the one that leads withdrawn."""
    names = {each.name for each in attempt.others if each.is_open}
    return _withdraw(attempt, names, now_s, reason)


def note_states(attempt: Attempt, seen: JobObservation) -> Attempt:
    """The attempt with when each of its requests was first seen, and first seen ACTIVE."""
    state = seen.requests.get(attempt.queued_resource or "", ABSENT)
    accepted_s, provisioning_s = attempt.accepted_s, attempt.provisioning_s
    if accepted_s is None and state != ABSENT:
        accepted_s = seen.now_s
    if provisioning_s is None and state in SERVED:
        provisioning_s = seen.now_s
    noted = note_others(attempt, seen)
    return replace(noted, accepted_s=accepted_s, provisioning_s=provisioning_s)


def note_others(attempt: Attempt, seen: JobObservation) -> Attempt:
    """The same for the requests that do not lead alone, which may be on their way out."""
    others = tuple(
        _noted(each, seen) if each.deleted_s is None else each for each in attempt.others
    )
    return replace(attempt, others=others)


def next_fallback(record: JobRecord, attempt: Attempt, seen: JobObservation) -> Fallback | None:
    """Which of the waiting requests is given up for another place, and when; None: none is."""
    if attempt.chosen_s is not None:
        return None
    queued = [
        each
        for each in open_requests(attempt)
        if seen.requests.get(each.name) in zones.QUEUED_STATES
    ]
    return zones.fallback(record, queued, seen.zone_health or {})


def grow_search(record: JobRecord, attempt: Attempt, seen: JobObservation) -> Attempt:
    """The attempt that asks more places, where there is room for them."""
    at_once = record.spec.search.at_once
    is_full = attempt.chosen_s is not None or len(zones.held_places(record)) >= at_once
    if at_once == 1 or is_full or seen.zone_health is None or seen.blocked_by:
        return attempt
    places = zones.choose_places(record, seen.zone_health, seen.now_s).places
    return add_requests(record, attempt, places, seen.now_s)


def search_text(record: JobRecord, attempt: Attempt, requests: Mapping[str, str]) -> str:
    """`asks 2 zones: us-west4-a ACCEPTED, us-east1-c WAITING_FOR_RESOURCES`."""
    asked = open_requests(attempt)
    states = {each.name: requests.get(each.name, "not known") for each in asked}
    found = [
        f"{zones.place_text(record, each)} {states[each.name].replace(ABSENT, 'asked')}"
        for each in asked
    ]
    is_one_each = len({each.zone for each in asked}) == len(asked)
    return f"asks {len(asked)} {'zones' if is_one_each else 'slices'}: {', '.join(found)}"


def replace_request(record: JobRecord, request: Candidate) -> JobRecord:
    """The record with one of the requests that do not lead changed."""
    attempts = tuple(
        replace(
            attempt,
            others=tuple(request if each.name == request.name else each for each in attempt.others),
        )
        for attempt in record.attempts
    )
    return replace(record, attempts=attempts)


def _lead(attempt: Attempt) -> Candidate:
    return Candidate(
        attempt.queued_resource or attempt.node,
        attempt.zone,
        attempt.accelerator_type,
        attempt.request_id,
        attempt.requested_s,
        attempt.accepted_s,
    )


def _preferred(record: JobRecord, requests: Iterable[Candidate]) -> Candidate:
    return min(requests, key=lambda each: zones.preference(record, each.key))


def _withdraw(
    attempt: Attempt,
    names: set[str],
    now_s: float,
    reason: str,
    *,
    is_stockout: bool = False,
    refusal: str = "",
) -> Attempt:
    others = tuple(
        replace(each, withdrawn_s=now_s, reason=reason, is_stockout=is_stockout, refusal=refusal)
        if each.name in names
        else each
        for each in attempt.others
    )
    return replace(attempt, others=others)


def _noted(request: Candidate, seen: JobObservation) -> Candidate:
    state = seen.requests.get(request.name, ABSENT)
    if request.accepted_s is None and state != ABSENT:
        request = replace(request, accepted_s=seen.now_s)
    if request.active_s is None and state == QueuedResourceState.ACTIVE:
        request = replace(request, active_s=seen.now_s)
    return request


def _request_id(record: JobRecord, name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"tpuctl:{record.job_id}:{name}"))
