"""When a running job ends at the latest, where its limits say so."""

from __future__ import annotations

from tpuctl.jobs.policy import budget
from tpuctl.metrics.goodput.step_table import StepTable
from tpuctl.models.job import AttemptState, JobRecord
from tpuctl.models.money.price_book import SECONDS_AN_HOUR


def seconds_left(record: JobRecord, now_s: float, usd_per_hour: float | None) -> float | None:
    """For how long the slices of a job may still be used; None where nothing limits it.

    The run timeout, the budget in hours and in USD (by the price of all its slices together), the
    run duration of flex-start, and the steps that its program still has to make: the first of them.
    """
    if record.is_ended:
        return 0.0
    limits = [
        _run_timeout_left_s(record, now_s),
        _budget_left_s(record, now_s, usd_per_hour),
        _run_duration_left_s(record, now_s),
        _steps_left_s(record),
    ]
    known = [each for each in limits if each is not None]
    return max(0.0, min(known)) if known else None


def _run_timeout_left_s(record: JobRecord, now_s: float) -> float | None:
    limit_s, attempt = record.spec.timeouts.run_s, record.attempt
    if limit_s is None:
        return None
    if attempt is None or attempt.started_s is None or attempt.state == AttemptState.ENDED:
        return limit_s
    return attempt.started_s + limit_s - now_s


def _budget_left_s(record: JobRecord, now_s: float, usd_per_hour: float | None) -> float | None:
    hours = budget.remaining_hours(record, now_s, usd_per_hour)
    return None if hours is None else hours * SECONDS_AN_HOUR


def _run_duration_left_s(record: JobRecord, now_s: float) -> float | None:
    limit_s, attempt = record.spec.resources.options.max_run_duration_s, record.attempt
    if limit_s is None or attempt is None or attempt.ready_s is None:
        return None
    return attempt.ready_s + limit_s - now_s


def _steps_left_s(record: JobRecord) -> float | None:
    """The time of the steps that are left, each as long as those before on average."""
    attempt = record.attempt
    table = None if attempt is None else StepTable.of(attempt)
    if attempt is None or table is None or attempt.state == AttemptState.ENDED:
        return None
    told = [each.metrics.get("steps") for each in attempt.workers]
    lasts = [int(each) for each in told if isinstance(each, (int, float))]
    (first, first_s), (last, last_s) = table.rows[0], table.rows[-1]
    if not lasts or last <= first:
        return None
    return (max(lasts) - max(last, attempt.last_step)) * (last_s - first_s) / (last - first)
