"""What a job may use of slices, in hours or in dollars, and what it has used."""

from tpuctl.jobs.record.status_text import format_duration
from tpuctl.models.job import JobRecord

HOUR_S = 3600.0


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
