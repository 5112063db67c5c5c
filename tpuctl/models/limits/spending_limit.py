"""What all slices of a context may cost, and whether one more exceeds it.

an hour    what runs or was asked for, and the new one, in USD/h
a month    this month's total so far (UTC), and from now to the end of the month: what runs or
           was asked for, and the new one, each until its TTL or its job's budget ends it
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

HOUR_S = 3600.0
ROUNDING_USD = 1e-6


@dataclass(frozen=True, slots=True)
class SpendingLimit:
    """What the slices of a context may cost together; None: without limit."""

    context: str
    max_usd_per_hour: float | None = None
    max_usd_per_month: float | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is any limit."""
        return (self.max_usd_per_hour, self.max_usd_per_month) != (None, None)


@dataclass(frozen=True, slots=True)
class PricedSlices:
    """Slices that cost alike from now on."""

    usd_per_hour: float
    end_s: float | None = None
    """When they surely end, in seconds since 1970; None: not known."""
    most_usd: float | None = None
    """What they cost at most from now on; None: not known."""

    def usd_until(self, now_s: float, until_s: float) -> float:
        """What they cost from now on until a moment."""
        end_s = until_s if self.end_s is None else min(self.end_s, until_s)
        usd = self.usd_per_hour * max(0.0, end_s - now_s) / HOUR_S
        return usd if self.most_usd is None else min(usd, max(0.0, self.most_usd))


@dataclass(frozen=True, slots=True)
class ContextSpending:
    """What a context spends now, and has spent this month."""

    now_s: float
    slices: tuple[PricedSlices, ...] = ()
    """What runs or was asked for."""
    unpriced: int = 0
    """Slices of which no price is known: they are not counted."""
    month_usd: float = 0.0
    """This month's total up to now."""

    @property
    def usd_per_hour(self) -> float:
        """What runs or was asked for costs in an hour."""
        return sum(each.usd_per_hour for each in self.slices)

    @property
    def rest_usd(self) -> float:
        """What runs or was asked for costs until the end of the month."""
        return sum(each.usd_until(self.now_s, month_end_s(self.now_s)) for each in self.slices)


def month_start_s(moment_s: float) -> float:
    """When the month of a moment begins (UTC), in seconds since 1970."""
    moment = datetime.fromtimestamp(moment_s, UTC)
    return datetime(moment.year, moment.month, 1, tzinfo=UTC).timestamp()


def month_end_s(moment_s: float) -> float:
    """When the month of a moment ends (UTC), in seconds since 1970."""
    moment = datetime.fromtimestamp(moment_s, UTC)
    year, month = divmod(moment.year * 12 + moment.month, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC).timestamp()


def excess_text(limit: SpendingLimit, spent: ContextSpending, new: PricedSlices) -> str | None:
    """Which limit the new slices exceed, with all numbers; None while they may be had."""
    return _hour_excess(limit, spent, new) or _month_excess(limit, spent, new)


def usd_left(limit: SpendingLimit, spent: ContextSpending) -> float | None:
    """How many USD/h may be added; None without such a limit."""
    most = limit.max_usd_per_hour
    return None if most is None else max(0.0, most - spent.usd_per_hour)


def raised_limit(limit: SpendingLimit, spent: ContextSpending, new: Sequence[PricedSlices]) -> str:
    """The options of `context budget` with which the new slices may be had, rounded up."""
    hour_usd = spent.usd_per_hour + sum(each.usd_per_hour for each in new)
    rest_usd = sum(each.usd_until(spent.now_s, month_end_s(spent.now_s)) for each in new)
    sums = {
        "--usd-per-hour": (limit.max_usd_per_hour, hour_usd),
        "--usd-per-month": (limit.max_usd_per_month, spent.month_usd + spent.rest_usd + rest_usd),
    }
    return " ".join(
        f"{option} {int(usd) + 1}"
        for option, (most, usd) in sums.items()
        if most is not None and usd > most
    )


def _hour_excess(limit: SpendingLimit, spent: ContextSpending, new: PricedSlices) -> str | None:
    most, usd = limit.max_usd_per_hour, spent.usd_per_hour
    if most is None or usd + new.usd_per_hour <= most + ROUNDING_USD:
        return None
    return (
        f"{new.usd_per_hour:.2f} USD/h more than the {usd:.2f} USD/h of now exceed the limit of "
        f"context {limit.context!r}, {most:.2f} USD/h"
    )


def _month_excess(limit: SpendingLimit, spent: ContextSpending, new: PricedSlices) -> str | None:
    most, end_s = limit.max_usd_per_month, month_end_s(spent.now_s)
    new_usd, rest_usd = new.usd_until(spent.now_s, end_s), spent.rest_usd
    if most is None or spent.month_usd + rest_usd + new_usd <= most + ROUNDING_USD:
        return None
    day = datetime.fromtimestamp(end_s, UTC).strftime("%Y-%m-%d")
    return (
        f"{new_usd:.2f} USD until {day}, the {spent.month_usd:.2f} USD of this month and the "
        f"{rest_usd:.2f} USD of what runs until then exceed the limit of context "
        f"{limit.context!r}, {most:.2f} USD a month"
    )
