"""What a job has used up: hours of slices that were READY, and what they cost by the price list."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tpuctl.metrics.goodput.accounting import Billed, Goodput, account
from tpuctl.metrics.goodput.time_parts import Span, time_parts
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord
from tpuctl.models.node import Provisioning
from tpuctl.models.search import Candidate
from tpuctl.operations.slices import cost


@dataclass(frozen=True, slots=True)
class Spending:
    """Slice hours, USD where a price is known, and the date of the price list."""

    slice_hours: float
    usd: float | None
    as_of: str | None


class SliceUse(NamedTuple):
    """A time in which slices of one type were the job's, and paid for."""

    accelerator_type: str
    zone: str
    begin_s: float
    end_s: float
    slices: int

    @property
    def hours(self) -> float:
        """Slice hours."""
        return self.slices * (self.end_s - self.begin_s) / cost.SECONDS_AN_HOUR


def slice_uses(record: JobRecord, now_s: float) -> Iterator[SliceUse]:
    """The use of slices by all attempts up to `now_s`; attempts on one slice share its time."""
    shared: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in record.attempts:
        shared.setdefault((attempt.zone, attempt.node), []).append(attempt)
    for (zone, _), attempts in shared.items():
        began = [attempt.ready_s for attempt in attempts if attempt.ready_s is not None]
        kind = attempts[0].accelerator_type or record.accelerator_type
        if began:
            end_s = max(min(began), _end_s(record, attempts[-1], now_s))
            yield SliceUse(kind, zone, min(began), end_s, attempts[0].slices)
    for attempt in record.attempts:
        yield from (_lost_use(attempt, other, now_s) for other in attempt.others)


def spending_of(record: JobRecord, now_s: float) -> Spending:
    """The use of all attempts of a job by `now_s`, in slice hours and USD."""
    hours, usd, as_of, is_priced = 0.0, 0.0, None, True
    for use in slice_uses(record, now_s):
        price = cost.hourly_price(use.accelerator_type, use.zone, provisioning(record))
        hours += use.hours
        usd += use.hours * price.usd_per_hour if price else 0.0
        as_of = price.as_of if price else as_of
        is_priced = is_priced and (price is not None or not use.hours)
    return Spending(hours, usd if is_priced else None, as_of if is_priced else None)


def goodput_of(record: JobRecord, now_s: float) -> Goodput:
    """Where the seconds and the dollars of a job went by `now_s`."""
    return account(*history_of(record, now_s))


def history_of(record: JobRecord, now_s: float) -> tuple[list[Span], list[Billed]]:
    """The parts of a job's time one after the other, and when its slices were paid for."""
    billed = []
    for use in slice_uses(record, now_s):
        price = cost.usd_per_hour(use.accelerator_type, use.zone, provisioning(record))
        usd_per_s = None if price is None else use.slices * price / cost.SECONDS_AN_HOUR
        if use.hours:
            billed.append(Billed(use.begin_s, use.end_s, usd_per_s))
    last_s = max((each.end_s for each in billed), default=0.0)
    return time_parts(record, now_s, last_s), billed


def provisioning(record: JobRecord) -> Provisioning:
    """The provisioning model of the job's slices."""
    return record.spec.resources.provisioning


def usd_per_hour(record: JobRecord) -> float | None:
    """USD per hour of the job's slices while READY, in the zone of the newest."""
    attempt = record.attempt
    slices = attempt.slices if attempt else record.spec.resources.num_slices
    usd_per_slice = cost.usd_per_hour(record.accelerator_type, record.zone, provisioning(record))
    return None if usd_per_slice is None else usd_per_slice * slices


def has_slice(record: JobRecord) -> bool:
    """Whether the newest attempt has READY slices, which are paid for."""
    attempt = record.attempt
    if attempt is None or attempt.ready_s is None or attempt.deleted_s is not None:
        return False
    return not record.is_settled


def _lost_use(attempt: Attempt, request: Candidate, now_s: float) -> SliceUse:
    """The use of a request that was ACTIVE and lost."""
    billed_s = request.billed_s
    if billed_s is None:
        billed_s = max(0.0, now_s - (request.active_s or now_s))
    began_s = request.active_s or now_s
    kind, slices = request.accelerator_type, attempt.slices
    return SliceUse(kind, request.zone, began_s, began_s + billed_s, slices)


def _end_s(record: JobRecord, last: Attempt, now_s: float) -> float:
    """When the slice was taken, given back or deleted; a kept one is the job's until it ended."""
    taken = last.outcome == AttemptOutcome.PREEMPTED or not last.owned
    if taken and last.ended_s is not None:
        return last.ended_s
    if last.deleted_s is not None:
        return last.deleted_s
    if last.queued_resource in record.unwanted:
        return now_s
    return record.ended_s if record.ended_s is not None else now_s
