"""What of the time of a job's slices was lost to preemptions, or idle."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tpuctl.metrics.goodput.time_parts import Span, TimePart
from tpuctl.models.job import AttemptOutcome, JobRecord
from tpuctl.operations.slices import spending

TAKEN = frozenset({AttemptOutcome.PREEMPTED, AttemptOutcome.LOST})
"""Outcomes of an attempt whose slice was taken away."""


class UnproductiveTime(NamedTuple):
    """Seconds of a time that were lost to preemptions, and seconds that were idle."""

    lost_s: float
    idle_s: float


class JobTimes(NamedTuple):
    """The spans of a job in which its slices were paid for and made no progress."""

    lost: Sequence[Span]
    """Work that was done again, and what followed until the next attempt: after preemptions."""
    idle: Sequence[Span]

    def within(self, begin_s: float, end_s: float) -> UnproductiveTime:
        """How much of a time each of them is."""
        return UnproductiveTime(
            _shared_s(self.lost, begin_s, end_s), _shared_s(self.idle, begin_s, end_s)
        )


def times_of_jobs(jobs: Mapping[str, JobRecord], now_s: float) -> dict[str, JobTimes]:
    """The times of each job that has ever had a slice, by its id."""
    return {
        job_id: times_of_job(record, now_s)
        for job_id, record in jobs.items()
        if any(attempt.ready_s is not None for attempt in record.attempts)
    }


def times_of_job(record: JobRecord, now_s: float) -> JobTimes:
    """The times of a job, as docs/goodput.md defines its parts."""
    spans, _ = spending.history_of(record, now_s)
    taken = {each.number for each in record.attempts if each.outcome in TAKEN}
    lost = [
        span
        for span in spans
        if span.part in (TimePart.LOST, TimePart.RECOVERING) and span.attempt in taken
    ]
    return JobTimes(lost, [span for span in spans if span.part == TimePart.IDLE])


def _shared_s(spans: Sequence[Span], begin_s: float, end_s: float) -> float:
    """The seconds that spans in the order of time have in common with another one."""
    first = max(0, bisect_left(spans, begin_s, key=lambda span: span.begin_s) - 1)
    shared_s = 0.0
    for span in spans[first:]:
        if span.begin_s >= end_s:
            break
        shared_s += max(0.0, min(span.end_s, end_s) - max(span.begin_s, begin_s))
    return shared_s
