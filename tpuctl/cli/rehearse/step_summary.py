"""A rehearsal as Markdown, for the summary of a job in CI (GitHub's GITHUB_STEP_SUMMARY)."""

import re
from collections.abc import Iterator
from html import escape

from tpuctl.cli.rehearse.badge import LABEL, badge_value
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
from tpuctl.cli.shell.tables.values import Usd, printable
from tpuctl.models.rehearsal.verdict import RehearsalReport, Verdict

HEADINGS = ("moment", "verdict", "resumed from", "lost", "recovery", "USD", "why")
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#&$@])")


def summary_markdown(report: RehearsalReport) -> str:
    """The table of moments, and what explains each one that did not pass."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: RehearsalReport) -> Iterator[str]:
    yield f"### {_escape(report.job)}: {LABEL} {_escape(badge_value(report))}"
    yield ""
    wall = seconds_text(report.wall_s)
    yield f"**{_escape(summary_text(report))}** (seed {report.seed}, {wall})"
    yield ""
    reference = report.reference
    yield f"Reference: {reference.judgement}: {_escape(reference_text(reference))}"
    if report.verdicts or report.skipped:
        yield ""
        yield _row(HEADINGS)
        yield _row(("---",) * 3 + ("---:",) * 3 + ("---",))
        yield from (_row(_cells(verdict)) for verdict in report.verdicts)
        for name in report.skipped:
            yield _row((_escape(name), SKIPPED, "", "", "", "", _escape(SKIPPED_WHY)))
    for verdict in report.verdicts:
        if verdict.judgement not in GOOD:
            yield from _details(verdict)


def _cells(verdict: Verdict) -> tuple[str, ...]:
    """The cells of a moment, in the order of HEADINGS."""
    recovery = "" if verdict.recovery_s is None else seconds_text(verdict.recovery_s)
    usd = "" if verdict.cost_usd is None else str(Usd(verdict.cost_usd))
    judgement: str = verdict.judgement
    judgement = judgement if verdict.judgement in GOOD else f"**{judgement}**"
    resumed, lost = (_number(each) for each in (verdict.resumed_from, verdict.lost_steps))
    why = _escape(why_text(verdict))
    return (_escape(verdict.moment.name), judgement, resumed, lost, recovery, usd, why)


def _details(verdict: Verdict) -> Iterator[str]:
    """The evidence of a moment that did not pass, folded up."""
    moment = verdict.moment
    yield ""
    yield f"<details><summary>{escape(f'{moment.name}: {moment.title}')}</summary>"
    yield ""
    if moment.place:
        yield f"- place: {_escape(moment.place)}"
    for label, text in evidence(verdict):
        yield f"- {label}: {_escape(text)}"
    if verdict.replay:
        yield ""
        yield from ("```sh", printable(verdict.replay), "```")
    yield ""
    yield "</details>"


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _escape(text: str) -> str:
    """The text as Markdown shows it: one line without marks, links, elements or mentions."""
    return _SPECIAL.sub(r"\\\1", printable(text))
