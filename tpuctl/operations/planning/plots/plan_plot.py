"""The picture of a plan: days and USD over the number of chips, a line for each generation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.metrics.exporters.metric_plot import COLOURS, write_figure
from tpuctl.operations.planning.planned_slice import PlannedSlice
from tpuctl.operations.planning.plots.log_axes import set_log_axes
from tpuctl.operations.planning.row_marks import days_of, usd_of_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_INCHES = (12.0, 5.0)


def plot_plan(path: Path, title: str, rows: Sequence[PlannedSlice], *, is_spot: bool) -> int:
    """Draw the rows that fit; return how many they are, without any nothing is written.

    Raises PreconditionError (no matplotlib) and LocalIOError.
    """
    drawn = [row for row in rows if row.is_possible and row.cost]
    if drawn:
        write_figure(path, lambda: _figure(title, drawn, is_spot=is_spot))
    return len(drawn)


def _figure(title: str, rows: Sequence[PlannedSlice], *, is_spot: bool) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, dpi=120, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    time, money = figure.subplots(1, 2)
    generations = dict.fromkeys(row.where.kind.generation for row in rows)
    for generation, colour in zip(generations, COLOURS, strict=False):
        of_it = [row for row in rows if row.where.kind.generation == generation]
        _draw_days(time, of_it, colour, is_spot=is_spot)
        _draw_usd(money, of_it, colour, is_spot=is_spot)
    how = "spot" if is_spot else "on demand"
    time.set_title("days of the run", loc="left")
    money.set_title(f"USD of the run, {how}", loc="left")
    for axes in (time, money):
        axes.set_xlabel("chips")
        axes.margins(y=0.12)  # room for the names of marked rows
        set_log_axes(axes, is_x_binary=True)
    return figure


def _draw_days(axes: Axes, rows: Sequence[PlannedSlice], colour: str, *, is_spot: bool) -> None:
    costs = [(row.where.chips, row.cost) for row in rows if row.cost]
    xs = [chips for chips, _ in costs]
    axes.plot(
        xs, [days_of(cost, is_spot=is_spot) for _, cost in costs],
        color=colour, marker="o", markersize=4, label=rows[0].where.kind.generation,
    )  # fmt: skip
    if not is_spot:
        lows, highs = (
            [getattr(cost, end) for _, cost in costs] for end in ("days_low", "days_high")
        )
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.12, linewidth=0)
        axes.vlines(xs, lows, highs, color=colour, alpha=0.35, linewidth=1)  # of one row, too


def _draw_usd(axes: Axes, rows: Sequence[PlannedSlice], colour: str, *, is_spot: bool) -> None:
    """USD of the rows with a price; the marked ones have their names."""
    priced = [
        (row, usd)
        for row in rows
        if row.cost and (usd := usd_of_run(row.cost, is_spot=is_spot)) is not None
    ]
    axes.plot(
        [row.where.chips for row, _ in priced], [usd for _, usd in priced],
        color=colour, marker="o", markersize=4, label=rows[0].where.kind.generation,
    )  # fmt: skip
    for row, usd in priced:
        if row.marks:
            axes.annotate(
                f"{', '.join(row.marks)}: {row.where.text}", (row.where.chips, usd), (0, 7),
                textcoords="offset points", fontsize=8, va="bottom", ha="right",
            )  # fmt: skip
