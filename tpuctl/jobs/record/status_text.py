"""What a record tells people: why the job waits or what it does next, and its events."""

from dataclasses import replace
from datetime import UTC, datetime

from tpuctl.models.job import JobEvent, JobRecord

EVENTS_KEPT = 100
MINUTE_S, HOUR_S, HALF_A_DAY_S = 60.0, 3600.0, 43200.0
TROUBLE_PREFIX = "its supervisor has trouble: "
ARMED = "armed"
"""The result of a proof that a slice can delete itself."""


def with_status(record: JobRecord, text: str, now_s: float) -> JobRecord:
    """Say why it waits or what it does next, once."""
    if text == record.why:
        return record
    return replace(with_event(record, text, now_s), why=text)


def with_event(record: JobRecord, text: str, now_s: float) -> JobRecord:
    """Something happened that does not change why the job is where it is."""
    return replace(record, events=(*record.events, JobEvent(now_s, text))[-EVENTS_KEPT:])


def with_trouble(record: JobRecord, text: str, now_s: float) -> JobRecord:
    """Its supervisor cannot look after it; how an ended job ended stays what it was."""
    if record.is_ended:
        return record
    text = f"{TROUBLE_PREFIX}{text}"
    if record.events and record.events[-1].text == text:
        return replace(record, why=text)  # the same trouble again is no new event
    return with_status(record, text, now_s)


def without_trouble(record: JobRecord) -> JobRecord:
    """Looked after again: what was told last before the trouble is true again."""
    if not record.why.startswith(TROUBLE_PREFIX):
        return record
    before = (event.text for event in reversed(record.events) if TROUBLE_PREFIX not in event.text)
    return replace(record, why=next(before, "looked after again"))


def current_status(record: JobRecord, now_s: float) -> str:
    """Why the job is where it is, and how long until it goes on by itself."""
    if record.next_s is None or record.is_ended or record.why.startswith(TROUBLE_PREFIX):
        return record.why
    wait = format_duration(max(0.0, record.next_s - now_s))
    then = f"; then {record.next_zone} in" if record.next_zone else ", next in"
    return f"{record.why}{then} {wait}"


def format_moment(time_s: float, now_s: float) -> str:
    """`14:02Z`, with the day when that is not clear."""
    found = datetime.fromtimestamp(time_s, UTC)
    return f"{found:%H:%MZ}" if abs(now_s - time_s) < HALF_A_DAY_S else f"{found:%d %b %H:%MZ}"


def format_duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`: as exact as people need it."""
    if seconds < 2 * MINUTE_S:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE_S:.0f} min" if seconds < 2 * HOUR_S else f"{seconds / HOUR_S:.1f} h"


def switch_warning(result: str, usd_per_hour: float | None) -> str | None:
    """A line for a slice that proved `result` when it tried to delete itself; None if it can."""
    if result in ("", ARMED):
        return None
    return f"its slice cannot delete itself ({result}): {forgotten_price(usd_per_hour)}"


def forgotten_price(usd_per_hour: float | None) -> str:
    """What a slice costs when nobody remembers it."""
    if usd_per_hour is None:
        return "forgotten, it costs until somebody deletes it"
    return f"forgotten, it costs {usd_per_hour:.2f} USD/h until somebody deletes it"
