"""The place of charts on a page, what their scripts draw, and a row for each worker."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpuctl.cli.dashboard.page import heading
from tpuctl.cli.top.worker_row import TABLE, WorkerRow
from tpuctl.cli.web.html import Child, Html, table, tag
from tpuctl.metrics.chart_series import MOST_LINES, Charts, Line


def charts_section(source: str, command: str, chooser: Html | None = None) -> Html:
    """Where the scripts of a page draw what they read at `source`; `command` has the numbers."""
    without = tag("p", "Charts need scripts; the numbers: ", tag("code", command))
    return heading(
        "Measurements",
        chooser,
        tag("div", data_charts=source, class_="charts"),
        tag("noscript", without),
    )


def workers_form(chosen: str) -> Html:
    """A form that chooses the workers whose lines are drawn."""
    return tag(
        "form",
        tag("label", "Workers ", tag("input", name="worker", value=chosen, placeholder="all")),
        " ",
        tag("button", "Show"),
        tag("p", f"Such as 0,4-6. Of more than {MOST_LINES} the highest, median and lowest are "
            "drawn.", class_="muted"),
        method="get",
    )  # fmt: skip


def chart_document(drawn: Charts) -> dict[str, Any]:
    """Charts as the scripts read them, without marks."""
    return {
        "times": drawn.times,
        "charts": [
            {"title": each.title, "unit": each.unit, "lines": [_line(line) for line in each.lines]}
            for each in drawn.charts
        ],
        "marks": [],
        "missing": [],
        "over": False,
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "attempt": line.attempt, "label": line.label, "first": line.first,
        "values": line.values, "gaps": line.gaps,
    }  # fmt: skip


def workers_table(rows: Sequence[WorkerRow]) -> Html:
    """What each worker does now; empty where nobody was measured."""
    if not rows:
        return Html("")
    columns: Mapping[str, Callable[[WorkerRow], Child]] = {
        key.replace("_", " "): get for key, get in TABLE.items() if key != "name"
    }
    return heading("Workers now", table("Newest measurement of each", columns, rows))
