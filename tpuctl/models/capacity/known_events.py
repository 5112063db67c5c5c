"""Events of capacity as several have told them, each once."""

import math
from collections.abc import Iterable
from typing import Any

from tpuctl.models.capacity.capacity_event import CapacityEvent, CapacityEventKind, RefusalCause

DAY_S = 86_400.0
KEPT_DAYS = 30
"""What is older is not looked at any more."""
SPECIFIC_FIRST = (
    *(RefusalCause.QUOTA, RefusalCause.ADDRESSES, RefusalCause.PERMISSION),
    *(RefusalCause.STOCKOUT, None),
)
"""Of two causes of one refusal, the earlier one here is kept: a job's record tells fewer kinds."""


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


def _preference(event: CapacityEvent) -> tuple[Any, ...]:
    is_refusal = event.kind == CapacityEventKind.REFUSED
    time_s = -event.time_s if is_refusal else event.time_s
    rest = (event.accelerator_type, event.zone, event.provisioning, event.slices)
    after_s = math.inf if event.after_s is None else event.after_s
    return (SPECIFIC_FIRST.index(event.cause), event.after_s is None, time_s, after_s, *rest)
