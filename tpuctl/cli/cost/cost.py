"""`tpuctl cost`: what the slices of a context have cost, and by what."""

import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tpuctl.cli.shell.parsing import moment_s
from tpuctl.cli.shell.progress_display import show_spinner
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import Listing, choose_rows, declare_keys
from tpuctl.cli.shell.tables.values import (
    Columns,
    PointInTime,
    Usd,
    attributes,
    plain,
    usd_of,
    values_of,
)
from tpuctl.errors import UsageError
from tpuctl.metrics.exporters import metric_plot
from tpuctl.models.duration import parse_duration
from tpuctl.models.limits.spending_limit import month_start_s
from tpuctl.operations.cost import cost_plot, cost_rows
from tpuctl.operations.cost.cost_history import CostHistory, read_history
from tpuctl.operations.cost.cost_rows import CostQuestion, CostReport, CostRow
from tpuctl.operations.slices import cost as prices

_DURATION = re.compile(r"[0-9.]+[smhd].*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def _usd_text(row: CostRow) -> str:
    """USD for people: `~` marks an estimate, and what has no price is not 0."""
    if row.usd is None:
        return "unpriced" if row.unpriced_hours else "0.00"
    about = "~" if row.is_estimate else ""
    return f"{about}{Usd(row.usd)}{' + unpriced' if row.unpriced_hours else ''}"


def _amount(key: str, row: CostRow) -> Usd | None:
    return usd_of(getattr(row, key))


AMOUNTS = (
    *("usd", "usd_on_demand", "usd_lost", "usd_idle", "usd_forecast"),
    *("usd_least", "usd_most"),
)
KEYS: Columns[CostRow] = {
    **attributes("group", "slices"),
    "hours": lambda row: round(row.hours, 6),
    **{key: partial(_amount, key) for key in AMOUNTS},
    **attributes("is_estimate"),
    "unpriced_hours": lambda row: round(row.unpriced_hours, 6),
    **attributes("zones", "node_ids"),
}
"""Keys and order are public."""
LEAST = ("slices", "usd forecast", "usd idle", "usd lost", "usd on demand")


def _listing(group_by: str) -> Listing[CostRow]:
    table: dict[str, Any] = {
        group_by: "group",
        "slices": "slices",
        "hours": lambda row: float(f"{row.hours:.4g}"),
        "usd": _usd_text,
        "usd on demand": "usd_on_demand",
        "usd lost": "usd_lost",
        "usd idle": "usd_idle",
        "usd forecast": "usd_forecast",
    }
    return Listing(KEYS, table, least=LEAST)


@declare_keys(lambda: KEYS)
def cost(
    runtime: Runtime,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION|DATE", help="Such as 7d or 2026-11-01; default: this month (UTC)."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="The end of the time; default: now.")
    ] = None,
    group_by: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="job, slice, owner, zone, day, provisioning or label:KEY.",
        ),
    ] = "job",
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the days too, a .png or a .svg; it needs matplotlib."
        ),
    ] = None,
) -> None:
    """Show what all slices of the context have cost, those that are gone too.

    A slice is paid for while it is READY, by the second, by the API's own timestamps. ~ marks an
    estimate: nobody saw the moment, and the API does not tell it. USD ON DEMAND is the price of the
    same hours on demand, LOST what preemptions made jobs do again, IDLE what went on after jobs had
    ended, FORECAST what running jobs may still cost up to their limits. What has no known price is
    unpriced, and in no sum.
    """
    cost_rows.check_group(group_by)
    _time_s(since, "--since", 0.0)
    if plot is not None:
        metric_plot.check_format(plot)
        metric_plot.require_matplotlib()
    if runtime.has_no_local_state():
        _show(runtime, CostHistory(runtime.now()), CostQuestion(0.0, 1.0, group_by))
        return
    with show_spinner(runtime, "reading the ledger"):
        history = read_history(runtime.tpu, runtime.store(), runtime.home, runtime.now)
    now_s = history.now_s
    since_s = _time_s(since, "--since", now_s)
    question = CostQuestion(
        month_start_s(now_s) if since_s is None else since_s,
        _time_s(until, "--until", now_s) or now_s,
        group_by,
    )
    _show(runtime, history, question)
    if plot is not None:
        days = cost_rows.daily_usd(history, prices.price_book(), question)
        if cost_plot.plot_days(plot, f"USD a day by {group_by}", days):
            runtime.output.note(f"drawn: {plot}")


def _show(runtime: Runtime, history: CostHistory, question: CostQuestion) -> None:
    """Print the rows and their total, and what is missing in them."""
    output, listing = runtime.output, _listing(question.group_by)
    report = cost_rows.cost_report(history, prices.price_book(), question)
    if output.is_document:
        rows = choose_rows(report.rows, listing, output.list_flags)
        output.document(
            {
                "since": plain(PointInTime(question.since_s)),
                "until": plain(PointInTime(question.until_s)),
                "group_by": question.group_by,
                "rows": [plain(values_of(row, KEYS)) for row in rows],
                "total": plain(values_of(report.total, KEYS)),
                "missing": list(history.missing),
            }
        )
    else:
        total = [report.total] if output.is_table and report.rows else []
        output.items([*report.rows, *total], listing, title=f"cost of {runtime.context.name}")
    _note_missing(runtime, history, question, report)


def _note_missing(
    runtime: Runtime, history: CostHistory, question: CostQuestion, report: CostReport
) -> None:
    output, total = runtime.output, report.total
    if output.is_table:
        since = datetime.fromtimestamp(question.since_s, UTC).strftime("%Y-%m-%d %H:%M")
        mark = "; ~ marks an estimate" if total.is_estimate else ""
        output.note(f"since {since} UTC{mark}")
    if total.unpriced_hours:
        output.note(
            f"{total.unpriced_hours:.4g} h of slices have no known price and are in no sum: "
            "tpuctl catalog prices"
        )
    for sentence in history.missing:
        output.warn(f"not read: {sentence}")


def _time_s(text: str | None, option: str, now_s: float) -> float | None:
    """The moment that `7d`, a date or a time means; None without one. Raises UsageError."""
    if text is None:
        return None
    if _DURATION.fullmatch(text) and not _DATE.match(text):
        return now_s - parse_duration(text)
    try:
        return moment_s(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text, option)
    except UsageError as error:
        hint = f"write {option} 7d, {option} 2026-12-01 or {option} 2026-12-01T09:00:00Z"
        raise UsageError(
            f"{option}: {text!r} is not a duration, a date or a time", hint=hint
        ) from error
