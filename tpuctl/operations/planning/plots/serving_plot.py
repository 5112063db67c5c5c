"""The picture of a planned service: latency and USD over throughput, a line for each slice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.metrics.exporters.metric_plot import COLOURS, write_figure
from tpuctl.operations.planning.plots.log_axes import set_log_axes
from tpuctl.operations.planning.serving_plan import ServedSlice, served_usd

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE_INCHES = (12.0, 5.0)


def plot_curves(path: Path, title: str, rows: Sequence[ServedSlice], *, is_spot: bool) -> int:
    """Draw the slices that cost least, one for each colour; return how many they are.

    Without any nothing is written. Raises PreconditionError (no matplotlib) and LocalIOError.
    """
    served = [row for row in rows if row.best]
    usd = {row.where.kind.name: served_usd(row, is_spot=is_spot) for row in served}
    order = sorted(served, key=lambda row: usd[row.where.kind.name] or float("inf"))
    drawn = order[: len(COLOURS)]
    if drawn:
        write_figure(path, lambda: _figure(title, drawn, is_spot=is_spot))
    return len(drawn)


def _figure(title: str, rows: Sequence[ServedSlice], *, is_spot: bool) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, dpi=120, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    latency, money = figure.subplots(1, 2)
    for row, colour in zip(rows, COLOURS, strict=False):
        name, curve = row.where.kind.name, row.curve
        latency.plot(
            [point.tokens_per_s for point in curve],
            [1000 * point.token_s for point in curve],
            color=colour, marker="o", markersize=4, label=name,
        )  # fmt: skip
        usd = [point.spot_usd_per_million if is_spot else point.usd_per_million for point in curve]
        priced = [(point.latency_s, each) for point, each in zip(curve, usd, strict=True) if each]
        if priced:
            money.plot(
                [seconds for seconds, _ in priced], [each for _, each in priced],
                color=colour, marker="o", markersize=4, label=name,
            )  # fmt: skip
    latency.set_title("ms a token over throughput", loc="left")
    latency.set_xlabel("output tokens a second")
    money.set_title("USD a million output tokens over latency", loc="left")
    money.set_xlabel("seconds of a whole request")
    for axes in (latency, money):
        set_log_axes(axes)
    return figure
