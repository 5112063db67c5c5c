"""The result of a rehearsal: a table of its moments, and what explains each failure."""

from dataclasses import asdict, fields, replace
from operator import attrgetter
from typing import Any

from tpuctl.cli.rehearse.verdict_texts import (
    GOOD,
    SKIPPED,
    SKIPPED_WHY,
    evidence,
    reference_text,
    seconds_text,
    summary_text,
    why_text,
)
from tpuctl.cli.shell.detail_view import DetailView, print_details
from tpuctl.cli.shell.output import Output
from tpuctl.cli.shell.tables.listing import Listing
from tpuctl.cli.shell.tables.values import Usd, plain, usd_of
from tpuctl.models.rehearsal.moment import Moment
from tpuctl.models.rehearsal.verdict import ReferenceVerdict, RehearsalReport, Verdict

Row = Verdict | str
"""A judged moment, or the name of one that was not run."""


def print_report(output: Output, report: RehearsalReport) -> None:
    """Print the result as the format wants it.

    A document holds the whole report. A table goes to stdout, the words around it to stderr.
    """
    if output.is_document:
        output.document(report_document(report))
        return
    rows: list[Row] = [*report.verdicts, *report.skipped]
    if rows:
        output.items(rows, MOMENTS)
        output.out.flush()
    if not output.shared.quiet:
        _print_words(output, report)


def report_document(report: RehearsalReport) -> dict[str, Any]:
    """The report as JSON has it: the fields of the models, and whether all of it `passed`."""
    document: dict[str, Any] = plain({"passed": report.passed, **asdict(report)})
    return document


def _get(name: str) -> Any:
    return lambda row: None if isinstance(row, str) else getattr(row, name)


def _judgement(row: Row) -> str:
    return SKIPPED if isinstance(row, str) else row.judgement


def _recovery(row: Row) -> str | None:
    if isinstance(row, str) or row.recovery_s is None:
        return None
    return seconds_text(row.recovery_s)


def _usd(row: Row) -> Usd | None:
    return None if isinstance(row, str) else usd_of(row.cost_usd)


def _why(row: Row) -> str:
    return SKIPPED_WHY if isinstance(row, str) else why_text(row)


MOMENTS: Listing[Row] = Listing(
    {
        "moment": lambda row: row if isinstance(row, str) else row.moment.name,
        "judgement": _judgement,
        **{key: _get(key) for key in ("resumed_from", "lost_steps", "recovery_s")},
        "cost_usd": _usd,
        "cause": _get("cause"),
        "why": _why,
        **{key: _get(key) for key in ("replay", "state_dir", "wall_s")},
    },
    {
        "moment": "moment",
        "verdict": lambda row: _judgement(row).upper(),
        "resumed": "resumed_from",
        "lost": "lost_steps",
        "recovery": _recovery,
        "usd": "cost_usd",
        "why": "why",
    },
    least=("usd", "resumed"),
)
PLANNED: Listing[Moment] = Listing(
    {each.name: attrgetter(each.name) for each in fields(Moment)},
    {"moment": "name", "about": "title", "place": "place"},
)


def _print_words(output: Output, report: RehearsalReport) -> None:
    """Print the failures, and last the one line that counts."""
    words = replace(output, out=output.err)
    if report.reference.judgement not in GOOD:
        _print_view(words, _reference_view(report.reference), "")
    for verdict in report.verdicts:
        if verdict.judgement not in GOOD:
            _print_view(words, _failure_view(verdict), verdict.replay)
    words.note("")
    words.note(f"{summary_text(report)} ({seconds_text(report.wall_s)})")


def _print_view(output: Output, view: DetailView, replay: str) -> None:
    output.line("")
    print_details(output, view)
    if replay:
        output.line(f"replay: {replay}")  # whole, on a narrow window too: it is copied


def _reference_view(reference: ReferenceVerdict) -> DetailView:
    fields = [("runs", reference_text(replace(reference, explanation="", cause=None, checks=())))]
    return DetailView("reference", reference.judgement.upper(), [*fields, *evidence(reference)], ())


def _failure_view(verdict: Verdict) -> DetailView:
    moment = verdict.moment
    about = [("moment", moment.title), ("place", moment.place)]
    kept = [("kept", verdict.state_dir)]
    fields = [pair for pair in (*about, *evidence(verdict), *kept) if pair[1]]
    return DetailView(moment.name, verdict.judgement.upper(), fields, ())
