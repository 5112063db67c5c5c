"""The picture of a load test: latency over throughput, and the latencies of each rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.metrics.exporters.metric_plot import COLOURS, LOSS, write_figure
from tpuctl.operations.load.rate_measurement import RateMeasurement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_INCHES = (12.0, 5.0)
CURVE_PERCENTS = (50.0, 90.0, 99.0, 99.9)
PERCENTS = (0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)
"""The points of a line in the second chart, whose axis has a step for each nine: 90, 99, 99.9."""
TICKS = (0.0, 90.0, 99.0, 99.9, 99.99)


def plot_measurements(path: Path, title: str, measured: Sequence[RateMeasurement]) -> int:
    """Draw what was measured at each rate; return of how many rates there was anything to draw.

    Raises PreconditionError (no matplotlib) and LocalIOError.
    """
    drawn = [each for each in measured if each.latency.count]
    if drawn:
        write_figure(path, lambda: _figure(title, drawn))
    return len(drawn)


def _figure(title: str, drawn: Sequence[RateMeasurement]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, dpi=120, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    curve, spread = figure.subplots(1, 2)
    _draw_curve(curve, sorted(drawn, key=lambda each: each.throughput))
    _draw_spread(spread, drawn)
    for axes in (curve, spread):
        axes.set_yscale("log")
        axes.set_ylabel("latency (ms)")
        axes.grid(visible=True, which="both", color="#e4e4e4", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, frameon=False)
    return figure


def _draw_curve(axes: Axes, drawn: Sequence[RateMeasurement]) -> None:
    """A line for each percentile; a cross where requests were sent late."""
    xs = [each.throughput for each in drawn]
    for percent, colour in zip(CURVE_PERCENTS, COLOURS, strict=False):
        ys = [_milliseconds(each, percent) for each in drawn]
        axes.plot(xs, ys, color=colour, marker="o", markersize=4, label=f"p{percent:g}")
    late = [each for each in drawn if each.is_late]
    if late:
        axes.plot(
            [each.throughput for each in late],
            [_milliseconds(each, CURVE_PERCENTS[-1]) for each in late],
            "x", color=LOSS, markersize=9, label="sent late",
        )  # fmt: skip
    axes.set_title("latency over throughput", loc="left")
    axes.set_xlabel("successful requests per second")
    axes.set_xlim(left=0)


def _draw_spread(axes: Axes, drawn: Sequence[RateMeasurement]) -> None:
    """A line for each rate, as far as its number of requests says anything."""
    for number, each in enumerate(drawn):
        known = [percent for percent in PERCENTS if (100 - percent) / 100 * each.latency.count >= 1]
        axes.plot(
            [_place_of(percent) for percent in known],
            [_milliseconds(each, percent) for percent in known],
            color=COLOURS[number % len(COLOURS)],
            label=f"{each.rate:g}/s",
        )
    axes.set_title("percentiles of latency", loc="left")
    axes.set_xticks([_place_of(percent) for percent in TICKS], [f"{each:g} %" for each in TICKS])


def _place_of(percent: float) -> float:
    """The place of a percentile on the axis: as many requests are above as it has tenths."""
    from math import log10

    return -log10(1 - percent / 100)


def _milliseconds(measured: RateMeasurement, percent: float) -> float:
    return (measured.latency.percentile_s(percent) or 0.0) * 1000
