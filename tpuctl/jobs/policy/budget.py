"""What a job may use of slices, in hours or in dollars, and what it has used."""

from tpuctl.jobs.record.status_text import format_duration
from tpuctl.models.job import JobRecord
from tpuctl.models.limits.slice_lifetime import TTL_LABEL, duration_of

HOUR_S = 3600.0
SAVE_S = 120.0
"""How long before its slice is deleted a program is told to end, at most."""


def used_hours(record: JobRecord, now_s: float) -> float:
    """Hours of READY slices since the job was submitted or tried again by hand."""
    used_s = sum(
        max(0.0, (now_s if attempt.ended_s is None else attempt.ended_s) - attempt.ready_s)
        for attempt in record.tries
        if attempt.ready_s is not None
    )
    return used_s / HOUR_S


def stop_reason(record: JobRecord, now_s: float) -> str | None:
    """Why the job must stop: its budget is used up; None while something is left."""
    budget, price = record.spec.budget, record.usd_per_hour
    if budget.hours is None and budget.usd is None:
        return None
    hours = used_hours(record, now_s)
    if budget.hours is not None and hours >= budget.hours:
        return f"budget: {budget.hours:g} h of slices are used up"
    if budget.usd is not None and price is not None and hours * price >= budget.usd:
        time = format_duration(hours * HOUR_S)
        return f"budget: {budget.usd:g} USD are used up ({time} at {price:.2f} USD/h)"
    return None


def ttl_reason(record: JobRecord, created_s: float | None, now_s: float) -> str | None:
    """Why the job must stop: its slice is deleted soon, by its TTL; None while it is not.

    `created_s` is when the API created the slice. The program gets a while for a last checkpoint.
    """
    labels = record.spec.resources.options.labels
    ttl_s = duration_of(labels)
    if ttl_s is None or created_s is None:
        return None
    if now_s < created_s + ttl_s - min(SAVE_S, ttl_s / 10):
        return None
    return f"ttl: the {labels[TTL_LABEL]} of its slice are over"


def remaining_usd(record: JobRecord, now_s: float) -> float | None:
    """What the slices of a job may cost from now on by its budget; None without a limit."""
    price = record.usd_per_hour
    hours = remaining_hours(record, now_s, price)
    return None if hours is None or price is None else max(0.0, hours) * price


def remaining_hours(record: JobRecord, now_s: float, usd_per_hour: float | None) -> float | None:
    """For how many hours the budget still lasts, negative when exceeded; None without a limit.

    `usd_per_hour` is the price of all slices of the job; without it a sum in USD limits nothing.
    """
    given = record.spec.budget
    limits = [] if given.hours is None else [given.hours]
    if given.usd is not None and usd_per_hour:
        limits.append(given.usd / usd_per_hour)
    return min(limits) - used_hours(record, now_s) if limits else None
