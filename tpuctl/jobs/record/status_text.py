"""What a record says to people: why the job waits or what it does next, and its events."""

from dataclasses import replace
from datetime import UTC, datetime

from tpuctl.models.job import UNSEEN_S, EventKind, JobEvent, JobRecord, ProofResult, SwitchProof

EVENTS_KEPT = 100
MINUTE_S, HOUR_S, HALF_A_DAY_S = 60.0, 3600.0, 43200.0


def with_status(record: JobRecord, text: str, now_s: float) -> JobRecord:
    """The record whose `why` is the text, with an event when it was another one."""
    if text == record.why:
        return record
    return replace(with_event(record, EventKind.STATUS, text, now_s), why=text)


def with_event(record: JobRecord, kind: EventKind, text: str, now_s: float) -> JobRecord:
    """The record with one more event, and its `why` as it was."""
    return replace(record, events=(*record.events, JobEvent(now_s, text, kind))[-EVENTS_KEPT:])


def with_trouble(record: JobRecord, text: str, now_s: float) -> JobRecord:
    """The record of an open job that its supervisor cannot look after; an ended one as it was.

    The same trouble twice in a row is one event.
    """
    if record.is_ended:
        return record
    troubled = replace(record, trouble=text)
    last = record.events[-1] if record.events else None
    if last and (last.kind, last.text) == (EventKind.TROUBLE, troubled.status_text):
        return troubled
    return with_event(troubled, EventKind.TROUBLE, troubled.status_text, now_s)


def current_status(record: JobRecord, now_s: float) -> str:
    """The status of the job in words, and how long until it goes on by itself."""
    if record.is_ended and record.unwanted:
        return f"{record.status_text}; {_teardown_text(record, now_s)}"
    if record.next_s is None or record.is_ended or record.trouble:
        return record.status_text
    wait = format_duration(max(0.0, record.next_s - now_s))
    then = f"; then {record.next_zone} in" if record.next_zone else ", next in"
    return f"{record.why}{then} {wait}"


def _teardown_text(record: JobRecord, now_s: float) -> str:
    """What a job that has ended waits for: slices to go, requests that may still appear."""
    unseen = [
        attempt
        for attempt in record.attempts
        if attempt.queued_resource in record.unwanted
        and (attempt.accepted_s, attempt.ready_s, attempt.refusal) == (None, None, "")
    ]
    if not unseen:
        return f"waits until {', '.join(record.unwanted)} is deleted"
    until_s = max((attempt.ended_s or now_s) + UNSEEN_S for attempt in unseen)
    names = ", ".join(str(attempt.queued_resource) for attempt in unseen)
    return f"waits until {format_moment(until_s, now_s)}: {names}, never seen, may still appear"


def format_moment(time_s: float, now_s: float) -> str:
    """`14:02Z`, with the day when that is not clear."""
    found = datetime.fromtimestamp(time_s, UTC)
    return f"{found:%H:%MZ}" if abs(now_s - time_s) < HALF_A_DAY_S else f"{found:%d %b %H:%MZ}"


def format_duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`: as exact as people need it."""
    if seconds < 2 * MINUTE_S:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE_S:.0f} min" if seconds < 2 * HOUR_S else f"{seconds / HOUR_S:.1f} h"


def switch_warning(proof: SwitchProof, usd_per_hour: float | None) -> str | None:
    """A line for a slice that did not prove that it can delete itself; None if it did."""
    if proof.result == ProofResult.ARMED:
        return None
    return f"its slice cannot delete itself ({proof.text}): {forgotten_price(usd_per_hour)}"


def forgotten_price(usd_per_hour: float | None) -> str:
    """What a slice costs when nobody remembers it."""
    if usd_per_hour is None:
        return "forgotten, it costs until somebody deletes it"
    return f"forgotten, it costs {usd_per_hour:.2f} USD/h until somebody deletes it"
