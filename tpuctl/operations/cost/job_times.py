"""What of the time of a job's slices was lost to preemptions, or idle."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from tpuctl.metrics.goodput.time_parts import TimePart
from tpuctl.models.job import AttemptOutcome, JobRecord
from tpuctl.operations.slices import spending

TAKEN = frozenset({AttemptOutcome.PREEMPTED, AttemptOutcome.LOST})
"""Outcomes of an attempt whose slice was taken away."""


class UnproductiveTime(NamedTuple):
    """Seconds of a time that were lost to preemptions, and seconds that were idle."""

    lost_s: float
    idle_s: float


TimeSpan = tuple[float, float]
"""From when to when."""


class JobTimes(NamedTuple):
    """The spans of a job in which its slices were paid for and made no progress."""

    lost: Sequence[TimeSpan] = ()
    """Work that was done again, and what followed until the next attempt: after preemptions."""
    idle: Sequence[TimeSpan] = ()

    def within(self, begin_s: float, end_s: float) -> UnproductiveTime:
        """How much of a time each of them is."""
        return UnproductiveTime(
            _shared_s(self.lost, begin_s, end_s), _shared_s(self.idle, begin_s, end_s)
        )


def times_of_job(record: JobRecord, now_s: float) -> JobTimes:
    """The times of a job, as docs/goodput.md defines its parts."""
    spans, _ = spending.history_of(record, now_s)
    taken = {each.number for each in record.attempts if each.outcome in TAKEN}
    lost = [
        (span.begin_s, span.end_s)
        for span in spans
        if span.part in (TimePart.LOST, TimePart.RECOVERING) and span.attempt in taken
    ]
    idle = [(span.begin_s, span.end_s) for span in spans if span.part == TimePart.IDLE]
    return JobTimes(lost, idle)


def _shared_s(spans: Sequence[TimeSpan], begin_s: float, end_s: float) -> float:
    """The seconds that spans in the order of time have in common with another one."""
    first = max(0, bisect_left(spans, (begin_s, begin_s)) - 1)
    shared_s = 0.0
    for span_begin_s, span_end_s in spans[first:]:
        if span_begin_s >= end_s:
            break
        shared_s += max(0.0, min(span_end_s, end_s) - max(span_begin_s, begin_s))
    return shared_s
