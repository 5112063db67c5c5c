"""The picture of what slices cost: a bar for each day, divided by group."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.metrics.exporters.metric_plot import COLOURS, write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE_INCHES = (12.0, 5.0)
OTHERS = "others"
MOST_TICKS = 16


def plot_days(path: Path, title: str, usd: Mapping[str, Mapping[str, float]]) -> int:
    """Draw the USD of each group on each day (YYYY-MM-DD); return of how many days.

    Without any nothing is written. Raises PreconditionError (no matplotlib) and LocalIOError.
    """
    days = _days_between(sorted({day for each in usd.values() for day in each}))
    if days:
        write_figure(path, lambda: _figure(title, days, _dearest(usd)))
    return len(days)


def _days_between(found: list[str]) -> list[str]:
    if not found:
        return []
    first, last = date.fromisoformat(found[0]), date.fromisoformat(found[-1])
    return [(first + timedelta(days=n)).isoformat() for n in range((last - first).days + 1)]


def _dearest(usd: Mapping[str, Mapping[str, float]]) -> dict[str, Mapping[str, float]]:
    """The groups that cost most, one for each colour; the rest together is the last."""
    order = sorted(usd, key=lambda group: (-sum(usd[group].values()), group))
    shown = {group: usd[group] for group in order[: len(COLOURS) - 1]}
    rest: dict[str, float] = {}
    for group in order[len(shown) :]:
        for day, amount in usd[group].items():
            rest[day] = rest.get(day, 0.0) + amount
    return {**shown, OTHERS: rest} if rest else shown


def _figure(title: str, days: list[str], usd: Mapping[str, Mapping[str, float]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, dpi=120, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    axes = figure.subplots()
    places, below = list(range(len(days))), [0.0] * len(days)
    for (group, amounts), colour in zip(usd.items(), COLOURS, strict=False):
        heights = [amounts.get(day, 0.0) for day in days]
        axes.bar(places, heights, bottom=below, color=colour, label=group)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    step = -(-len(days) // MOST_TICKS)
    axes.set_xticks(places[::step], days[::step], rotation=30, ha="right")
    axes.set_ylabel("USD a day")
    axes.grid(visible=True, axis="y", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    return figure
