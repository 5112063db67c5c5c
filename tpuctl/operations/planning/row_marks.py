"""Which rows of a plan keep its limits, and which are the cheapest, the fastest and the knee."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tpuctl.models.planning.amount import three_digits
from tpuctl.models.planning.plan_spec import PlanLimits
from tpuctl.operations.planning.planned_slice import Fit, Mark, PlannedSlice, RunCost

SAME_COST = 1.005
"""What costs no more times the least is as cheap: estimates are not better than that."""


def days_of(cost: RunCost, *, is_spot: bool) -> float:
    """The days of a run, with those that preemptions cost on spot capacity."""
    return cost.spot.days if is_spot else cost.days


def usd_of_run(cost: RunCost, *, is_spot: bool) -> float | None:
    """The USD of a run on spot capacity or on demand; None without a price."""
    return cost.spot.usd if is_spot else cost.usd


def mark_rows(
    rows: Sequence[PlannedSlice], limits: PlanLimits, *, is_spot: bool
) -> list[PlannedSlice]:
    """The rows with their marks; a row that exceeds a limit says so and gets none.

    The knee is the row with the least product of days and USD: beyond it, doubling the chips
    raises the cost by a larger factor than it shortens the time. Of rows that cost the same, within
    half a percent, the fastest is the cheapest.
    """
    checked = [_limited(row, limits, is_spot=is_spot) for row in rows]
    choices = [
        (number, row.cost)
        for number, row in enumerate(checked)
        if row.fit is Fit.YES
        and row.is_within_limits
        and row.cost
        and math.isfinite(days_of(row.cost, is_spot=is_spot))
    ]
    timed = {number: days_of(cost, is_spot=is_spot) for number, cost in choices}
    priced = {
        number: usd
        for number, cost in choices
        if (usd := usd_of_run(cost, is_spot=is_spot)) is not None
    }
    found = {
        Mark.CHEAPEST: _cheapest(priced, timed),
        Mark.FASTEST: min(timed, key=lambda at: timed[at], default=None),
        Mark.KNEE: min(priced, key=lambda at: priced[at] * timed[at], default=None),
    }
    return [
        replace(row, marks=tuple(mark for mark, at in found.items() if at == number))
        for number, row in enumerate(checked)
    ]


def _cheapest(priced: Mapping[int, float], timed: Mapping[int, float]) -> int | None:
    least = min(priced.values(), default=0.0)
    equal = [at for at, usd in priced.items() if usd <= SAME_COST * least]
    return min(equal, key=lambda at: timed[at], default=None)


def excess(cost: RunCost | None, limits: PlanLimits, *, is_spot: bool) -> float:
    """By which factor a run exceeds the limit that it exceeds most; without a cost, endless."""
    if cost is None:
        return math.inf
    usd = usd_of_run(cost, is_spot=is_spot)
    by_days = days_of(cost, is_spot=is_spot) / limits.days if limits.days else 0.0
    by_usd = (math.inf if usd is None else usd / limits.usd) if limits.usd else 0.0
    return max(by_days, by_usd)


def _limited(row: PlannedSlice, limits: PlanLimits, *, is_spot: bool) -> PlannedSlice:
    """The row, with the limit that it exceeds."""
    if row.cost is None:
        return row
    days = days_of(row.cost, is_spot=is_spot)
    usd = usd_of_run(row.cost, is_spot=is_spot)
    over = []
    if limits.days is not None and days > limits.days:
        over.append(f"takes {three_digits(days)} days of {limits.days:g}")
    if limits.usd is not None and usd is None:
        over.append("no price is known")
    elif limits.usd is not None and usd is not None and usd > limits.usd:
        over.append(f"costs {usd:,.0f} USD of {limits.usd:,.0f}")
    if not over:
        return row
    return replace(row, is_within_limits=False, why=" and ".join(over))
