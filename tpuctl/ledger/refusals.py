"""What was refused and granted, shared by all who use a bucket.

    tpuctl/ledger/capacity/YYYY-MM-DD/OBSERVER.jsonl

A line is one CapacityEvent. Who sees an event writes it; an event that several have seen, or that a
job's record tells as well, counts once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from tpuctl.ledger.dated_lines import add_lines, day_of, read_lines
from tpuctl.models.capacity.capacity_event import CapacityEvent, CapacityEventKind, RefusalCause
from tpuctl.models.capacity.known_events import DAY_S, KEPT_DAYS, recent_events
from tpuctl.store import Store

KIND = "capacity"


def note_events(store: Store, observer: str, events: Iterable[CapacityEvent]) -> int:
    """Add events to what an observer has noted; return how many were new.

    Raises the errors of the store.
    """
    by_day: dict[str, list[CapacityEvent]] = defaultdict(list)
    for event in events:
        by_day[day_of(event.time_s)].append(event)
    return sum(
        add_lines(store, KIND, observer, day, map(line_of, found)) for day, found in by_day.items()
    )


def load_events(store: Store, now_s: float, days: float = KEPT_DAYS) -> list[CapacityEvent]:
    """The events that all have noted in the last days, each once.

    Lines that cannot be read are left out. Raises the errors of the store.
    """
    since_s = now_s - min(days, KEPT_DAYS) * DAY_S
    lines = read_lines(store, KIND, since_s, now_s + DAY_S)
    return recent_events(filter(None, map(event_of, lines)), now_s, days)


def line_of(event: CapacityEvent) -> dict[str, Any]:
    """The line of an event: its fields, but for those without a value."""
    fields = {key: value for key, value in asdict(event).items() if value is not None}
    return {**fields, "time_s": round(event.time_s, 3)} | (
        {} if event.after_s is None else {"after_s": round(event.after_s, 3)}
    )


def event_of(line: Mapping[str, Any]) -> CapacityEvent | None:
    """The event of a line; None for one that this version does not know."""
    try:
        cause, after_s = line.get("cause"), line.get("after_s")
        event = CapacityEvent(
            key=_text(line["key"]),
            kind=CapacityEventKind(line["kind"]),
            time_s=_number(line["time_s"]),
            accelerator_type=_text(line["accelerator_type"]),
            zone=_text(line["zone"]),
            provisioning=_text(line["provisioning"]),
            slices=int(_number(line.get("slices", 1))),
            cause=None if cause is None else RefusalCause(cause),
            after_s=None if after_s is None else max(0.0, _number(after_s)),
        )
    except (KeyError, ValueError, TypeError):
        return None
    return None if event.kind == CapacityEventKind.REFUSED and event.cause is None else event


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(value)
    return float(value)
