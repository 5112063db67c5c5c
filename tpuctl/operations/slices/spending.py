"""What a job has used up: hours of slices that were READY, and what they cost by the price list."""

from dataclasses import dataclass

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


def spending_of(record: JobRecord, now_s: float) -> Spending:
    """The use of all attempts of a job by `now_s`; attempts on one slice share its time."""
    shared: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in record.attempts:
        shared.setdefault((attempt.zone, attempt.node), []).append(attempt)
    uses: list[tuple[str, str, float]] = []
    for (zone, _), attempts in shared.items():
        began = [attempt.ready_s for attempt in attempts if attempt.ready_s is not None]
        ready_s = max(0.0, _end_s(record, attempts[-1], now_s) - min(began)) if began else 0.0
        used = attempts[0].slices * ready_s / cost.SECONDS_AN_HOUR
        kind = attempts[0].accelerator_type or record.accelerator_type
        uses.append((kind, zone, used))
    hours, usd, as_of, is_priced = 0.0, 0.0, None, True
    for attempt in record.attempts:
        uses += [_lost_use(attempt, other, now_s) for other in attempt.others]
    for kind, zone, used in uses:
        price = cost.hourly_price(kind, zone, provisioning(record))
        hours += used
        usd += used * price.usd_per_hour if price else 0.0
        as_of = price.as_of if price else as_of
        is_priced = is_priced and (price is not None or not used)
    return Spending(hours, usd if is_priced else None, as_of if is_priced else None)


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


def _lost_use(attempt: Attempt, request: Candidate, now_s: float) -> tuple[str, str, float]:
    """The type, the zone and the slice hours of a request that was ACTIVE and lost."""
    billed_s = request.billed_s
    if billed_s is None:
        billed_s = max(0.0, now_s - (request.active_s or now_s))
    hours = attempt.slices * billed_s / cost.SECONDS_AN_HOUR
    return request.accelerator_type, request.zone, hours


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
