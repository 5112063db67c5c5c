"""One picture of the charts of a job or of a node, drawn by matplotlib."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.errors import LocalIOError, PreconditionError, UsageError
from tpuctl.metrics.chart_series import Chart, Charts, Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHORTEST_S = 60.0
"""The shortest axis of time: a single sample is a point on it."""
FORMATS = ("png", "svg")
WIDTH_INCHES, CHART_INCHES, HEAD_INCHES = 12.0, 2.3, 1.1
COLUMNS = 2
MOST_LABELS = 8
"""Of lines in the legend."""
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#555555",
)  # fmt: skip
"""Told apart by people who see colours differently: Okabe and Ito, without yellow and black."""
LOSS, END, SHADE = "#b00020", "#555555", "#f1f3f5"
STYLE: Any = {"svg.fonttype": "none", "font.size": 9, "axes.titlesize": 10}
"""Text of an SVG stays text."""
TIME_UNITS = (("s", 1.0, 300.0), ("min", 60.0, 3 * 3600.0), ("h", 3600.0, 3 * 86400.0))
"""Unit of the time, its seconds, and up to how many seconds it is used; days above."""


class AttemptMark(NamedTuple):
    """An attempt from its start to its end, in seconds of the epoch."""

    number: int
    begin_s: float
    end_s: float | None
    """None while it runs."""
    outcome: str = ""
    is_loss: bool = False


def check_format(path: Path) -> None:
    """Raise UsageError for a name that says no format, before anything is measured."""
    if path.suffix.lower().removeprefix(".") not in FORMATS:
        raise UsageError(
            f"a plot is a .png or a .svg, not {path.name!r}", hint="write: --plot FILE.png"
        )


def write_plot(path: Path, title: str, drawn: Charts, marks: Sequence[AttemptMark]) -> None:
    """Draw the charts with the attempts marked; raises PreconditionError and LocalIOError."""
    write_figure(path, lambda: _figure(title, drawn, marks))


def write_figure(path: Path, draw: Callable[[], Figure]) -> None:
    """Write the picture that `draw` makes; raises PreconditionError and LocalIOError."""
    require_matplotlib()
    from matplotlib import rc_context

    try:
        with rc_context(STYLE):
            draw().savefig(path, format=path.suffix.lower()[1:])
    except OSError as error:
        raise LocalIOError(f"cannot write {path}: {error.strerror}") from error


def require_matplotlib() -> None:
    """Raise PreconditionError where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        hint = "run: pip install matplotlib"
        raise PreconditionError("--plot needs matplotlib", hint=hint) from None


def _figure(title: str, drawn: Charts, marks: Sequence[AttemptMark]) -> Figure:
    from matplotlib.figure import Figure

    rows = math.ceil(len(drawn.charts) / COLUMNS)
    size = (WIDTH_INCHES, CHART_INCHES * rows + HEAD_INCHES)
    figure = Figure(figsize=size, dpi=120, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    grid: Any = figure.subplots(rows, COLUMNS, squeeze=False, sharex=True)
    places = list(grid.flat)
    begin_s, span_s = drawn.times[0], drawn.times[-1] - drawn.times[0]
    unit, unit_s = _time_unit(span_s)
    ends_s = [span_s, SHORTEST_S, *(mark.end_s - begin_s for mark in marks if mark.end_s)]
    places[0].set_xlim(0, max(ends_s) * 1.01 / unit_s)
    labels = list(dict.fromkeys(line.label for each in drawn.charts for line in each.lines))
    colours = {label: COLOURS[at % len(COLOURS)] for at, label in enumerate(labels)}
    times = [(at - begin_s) / unit_s for at in drawn.times]
    for axes, chart in zip(places, drawn.charts, strict=False):
        _draw_chart(axes, chart, times, colours)
        _draw_marks(axes, marks, begin_s, unit_s, is_named=axes in places[:COLUMNS])
    for axes in places[len(drawn.charts) :]:
        axes.set_visible(False)
    first = datetime.fromtimestamp(begin_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    figure.supxlabel(f"{unit} since {first}", fontsize=9)
    _draw_legend(figure, places[0], labels)
    return figure


def _time_unit(span_s: float) -> tuple[str, float]:
    found = ((name, size_s) for name, size_s, most_s in TIME_UNITS if span_s <= most_s)
    return next(found, ("d", 86400.0))


def _draw_chart(axes: Axes, chart: Chart, times: Sequence[float], colours: dict[str, str]) -> None:
    from matplotlib.ticker import EngFormatter

    axes.set_title(f"{chart.title} ({chart.unit})" if chart.unit else chart.title, loc="left")
    for line in chart.lines:
        points = _points(line, times)
        is_short = len(points) < 3  # noqa: PLR2004 (a line of so few points is not seen)
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            color=colours[line.label],
            label=line.label,
            linewidth=1.2,
            marker="." if is_short else "",
        )
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelbottom=True)
    if chart.unit == "%":
        axes.set_ylim(0, 105)
    elif chart.unit:
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    elif "bytes" in chart.title:
        axes.yaxis.set_major_formatter(EngFormatter(unit="B"))


def _points(line: Line, times: Sequence[float]) -> list[tuple[float, float]]:
    """The points of a line; a gap is one that is not a number, which breaks it."""
    gaps = set(line.gaps)
    points = []
    for index, value in enumerate(line.values, line.first):
        if index in gaps:
            points.append((times[index], math.nan))
        elif value is not None:
            points.append((times[index], value))
    return points


def _draw_marks(
    axes: Axes, marks: Sequence[AttemptMark], begin_s: float, unit_s: float, *, is_named: bool
) -> None:
    """Shade every attempt, and draw a line where one ended; names stand over the first row."""
    right = axes.get_xlim()[1]
    top = axes.get_xaxis_transform()
    for mark in marks:
        begin = max(0.0, (mark.begin_s - begin_s) / unit_s)
        end = right if mark.end_s is None else (mark.end_s - begin_s) / unit_s
        axes.axvspan(begin, max(begin, end), color=SHADE, zorder=-1, linewidth=0)
        if is_named:
            axes.text(begin, 1.0, f" attempt {mark.number}", transform=top, va="top", fontsize=7)
        if mark.end_s is None or not mark.outcome:
            continue
        colour = LOSS if mark.is_loss else END
        axes.axvline(end, color=colour, linestyle="--", linewidth=1)
        if is_named:
            axes.text(
                end, 0.0, f"{mark.outcome} ", transform=top, rotation=90, ha="right", va="bottom",
                fontsize=7, color=colour,
            )  # fmt: skip


def _draw_legend(figure: Figure, axes: Axes, labels: Sequence[str]) -> None:
    handles = dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    known = [label for label in labels if label in handles]
    if len(known) > 1:
        figure.legend(
            [handles[label] for label in known[:MOST_LABELS]],
            known[:MOST_LABELS],
            loc="outside upper right",
            ncols=min(len(known), MOST_LABELS),
            fontsize=8,
            frameon=False,
        )
