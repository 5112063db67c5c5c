"""The limits of what a context may cost: shown with what it costs, and changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tpuctl import config
from tpuctl.config import LIMITS, Config
from tpuctl.errors import UsageError
from tpuctl.models.limits.spending_limit import ContextSpending, SpendingLimit, usd_left
from tpuctl.operations.slices.spending_check import MonthTotal, limit_of, read_spending

if TYPE_CHECKING:
    from pathlib import Path

    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.store import Store


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """The limits of a context, and what it spends; None where that was not asked for."""

    limit: SpendingLimit
    spent: ContextSpending | None = None

    @property
    def usd_left_per_hour(self) -> float | None:
        """How many USD/h may be added; None without such a limit."""
        return usd_left(self.limit, self.spent) if self.spent else None

    @property
    def month_forecast_usd(self) -> float | None:
        """What the month costs if all that runs goes on to its end."""
        return self.spent.month_usd + self.spent.rest_usd if self.spent else None


def read_budget(
    limit: SpendingLimit,
    api: TpuApi,
    store: Callable[[], Store],
    now_s: float,
    month_total: MonthTotal,
) -> ContextBudget:
    """The limits, and what the context spends now and this month."""
    spent = read_spending(api, store, now_s, month_total=month_total, with_month=True)
    return ContextBudget(limit, spent)


def checked_limits(
    per_hour: float | None, per_month: float | None, *, none: bool
) -> dict[str, float | None]:
    """The limits that are to be changed, None for one that is removed. Raises UsageError."""
    if none and (per_hour is not None or per_month is not None):
        raise UsageError("--none removes every limit", hint="leave it out, or the other options")
    given = dict(zip(LIMITS, (per_hour, per_month), strict=True))
    for name, usd in given.items():
        if usd is not None and not 0 < usd < float("inf"):
            option = f"--{name.removeprefix('max_').replace('_', '-')}"
            raise UsageError(f"{option} must be more than 0, not {usd:g}", hint="--none removes it")
    if none:
        return dict.fromkeys(LIMITS)
    return {name: usd for name, usd in given.items() if usd is not None}


def change_limits(home: Path, name: str, changes: Mapping[str, Any]) -> SpendingLimit:
    """Keep other limits for a context, or for a local cloud; returns all of its limits."""

    def edit(known: Config) -> Config:
        if name in known.contexts:
            changed = replace(known.contexts[name], **changes)
            return replace(known, contexts={**known.contexts, name: changed})
        together = {**known.local_limits.get(name, {}), **changes}
        kept = {key: usd for key, usd in together.items() if usd is not None}
        return replace(known, local_limits={**known.local_limits, name: kept})

    config.change(home, edit)
    return known_limits(config.load(home), name)


def known_limits(known: Config, name: str) -> SpendingLimit:
    """The limits of a context or of a local cloud, as the configuration has them."""
    if name in known.contexts:
        return limit_of(known.contexts[name])
    found = known.local_limits.get(name, {})
    return SpendingLimit(name, *(found.get(key) for key in LIMITS))
