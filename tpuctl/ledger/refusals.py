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
from tpuctl.store import Store

KIND = "capacity"
DAY_S = 86_400.0
KEPT_DAYS = 30
"""What is older is not looked at any more."""
SPECIFIC_FIRST = (
    *(RefusalCause.QUOTA, RefusalCause.ADDRESSES, RefusalCause.PERMISSION),
    *(RefusalCause.STOCKOUT, None),
)
"""Of two causes of one refusal, the earlier one here is kept: a job's record tells fewer kinds."""


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


def recent_events(
    events: Iterable[CapacityEvent], now_s: float, days: float = KEPT_DAYS
) -> list[CapacityEvent]:
    """The events of the last days (30 at most), each once, the oldest first."""
    since_s = now_s - min(days, KEPT_DAYS) * DAY_S
    until_s = now_s + DAY_S  # the clock of another observer may be ahead, but not by more
    return distinct(event for event in events if since_s <= event.time_s <= until_s)


def distinct(events: Iterable[CapacityEvent]) -> list[CapacityEvent]:
    """Every event once, the oldest first, whoever saw it and in whatever order it is told.

    The best account of each is kept: the most specific cause, a known duration, and then when a
    refusal was last seen, or when anything else was first seen.
    """
    best: dict[tuple[str, str], CapacityEvent] = {}
    for event in events:
        key = (event.key, event.kind)
        if key not in best or _preference(event) < _preference(best[key]):
            best[key] = event
    return sorted(best.values(), key=lambda event: (event.time_s, event.key, event.kind))


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


def _preference(event: CapacityEvent) -> tuple[Any, ...]:
    is_refusal = event.kind == CapacityEventKind.REFUSED
    time_s = -event.time_s if is_refusal else event.time_s
    rest = (event.accelerator_type, event.zone, event.provisioning, event.slices)
    after_s = math.inf if event.after_s is None else event.after_s
    return (SPECIFIC_FIRST.index(event.cause), event.after_s is None, time_s, after_s, *rest)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(value)
    return float(value)
