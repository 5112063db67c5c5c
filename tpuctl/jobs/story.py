"""What a record tells people: why the job waits or what it does next, and its events."""

from dataclasses import replace

from tpuctl.models.job import Event, JobRecord

EVENTS_KEPT = 100
TROUBLE = "its supervisor has trouble: "


def told(record: JobRecord, text: str, now_s: float) -> JobRecord:
    """Say why it waits or what it does next, once."""
    if text == record.why:
        return record
    return replace(noted(record, text, now_s), why=text)


def noted(record: JobRecord, text: str, now_s: float) -> JobRecord:
    """Something happened that does not change why the job is where it is."""
    return replace(record, events=(*record.events, Event(now_s, text))[-EVENTS_KEPT:])


def troubled(record: JobRecord, text: str, now_s: float) -> JobRecord:
    """Its supervisor cannot look after it; how an ended job ended stays what it was."""
    if record.is_ended:
        return record
    text = f"{TROUBLE}{text}"
    if record.events and record.events[-1].text == text:
        return replace(record, why=text)  # the same trouble again is no new event
    return told(record, text, now_s)


def recovered(record: JobRecord) -> JobRecord:
    """Looked after again: what was told last before the trouble is true again."""
    if not record.why.startswith(TROUBLE):
        return record
    before = (event.text for event in reversed(record.events) if TROUBLE not in event.text)
    return replace(record, why=next(before, "looked after again"))
