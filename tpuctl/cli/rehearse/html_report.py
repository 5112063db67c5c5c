"""A rehearsal as one HTML file that needs no other one and no script."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tpuctl.byte_size import count_text
from tpuctl.cli.rehearse.run_picture import MomentMarks, run_picture
from tpuctl.cli.rehearse.verdict_texts import (
    SKIPPED,
    SKIPPED_WHY,
    count_moments,
    reference_text,
    seconds_text,
    summary_text,
    why_text,
)
from tpuctl.cli.shell.tables.values import PointInTime, Usd
from tpuctl.cli.web.html import Child, Html, tag
from tpuctl.cli.web.palette import stylesheet
from tpuctl.models.rehearsal.run_history import RunHistory
from tpuctl.models.rehearsal.verdict import (
    Check,
    Judgement,
    ReferenceVerdict,
    RehearsalReport,
    Verdict,
)

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The browser itself refuses whatever the page would load."""
PARTS = {
    "waiting": "no slice yet",
    "provisioning": "the slice is being made",
    "preparing": "workers are set up",
    "compiling": "the program starts",
    "training": "steps are made",
}
KINDS = {
    Judgement.PASS: "good",
    Judgement.WARN: "warn",
    Judgement.FAIL: "bad",
    Judgement.UNKNOWN: "warn",
}


def html_text(report: RehearsalReport, *, began_s: float) -> str:
    """The page; `began_s` is when the rehearsal began, in seconds since 1970."""
    title = summary_text(report)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} - tpuctl rehearse"),
        tag("style", Html(stylesheet() + style())),
    )
    main = tag(
        "main",
        tag("h1", title),
        _facts(report, began_s),
        _moment_table(report),
        _legend(),
        _reference(report.reference),
        [_moment(number, verdict) for number, verdict in enumerate(report.verdicts)],
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', main), lang='en')}\n"


@cache
def style() -> str:
    """The rules of the page, beside the colours."""
    return Path(__file__).with_name("report.css").read_text("utf-8")


def _facts(report: RehearsalReport, began_s: float) -> Html:
    counts = count_moments(report)
    pairs: dict[str, Child] = {
        "result": word("pass" if report.passed else "fail" if _has_failed(report) else "unknown"),
        "moments": f"{counts.survived} of {counts.total} survived" if counts.total else None,
        "job file": report.file,
        "seed": report.seed,
        "began": str(PointInTime(began_s)),
        "took": seconds_text(report.wall_s),
    }
    return _pairs(pairs)


def _has_failed(report: RehearsalReport) -> bool:
    judgements = [report.reference.judgement, *(each.judgement for each in report.verdicts)]
    return Judgement.FAIL in judgements


def _pairs(pairs: dict[str, Child]) -> Html:
    return tag(
        "dl",
        [
            tag("div", tag("dt", key), tag("dd", value))
            for key, value in pairs.items()
            if value not in (None, "")
        ],
    )


def word(judgement: str) -> Html:
    """A judgement in its colour; the word says it without."""
    return tag("b", judgement, class_=f"word {KINDS.get(Judgement(judgement), 'warn')}")


def _moment_table(report: RehearsalReport) -> Html | None:
    if not report.verdicts and not report.skipped:
        return None
    heads = ("moment", "verdict", "resumed from", "lost", "recovery", "USD", "why")
    rows = [_moment_row(number, verdict, heads) for number, verdict in enumerate(report.verdicts)]
    rows += [_skipped_row(name, heads) for name in report.skipped]
    return tag(
        "table",
        tag("caption", "Every moment, in the order in which it was tried"),
        tag("thead", tag("tr", [tag("th", head, scope="col") for head in heads])),
        tag("tbody", rows),
    )


def _moment_row(number: int, verdict: Verdict, heads: tuple[str, ...]) -> Html:
    recovery = None if verdict.recovery_s is None else seconds_text(verdict.recovery_s)
    usd = None if verdict.cost_usd is None else str(Usd(verdict.cost_usd))
    return _row(
        heads,
        (
            tag("a", verdict.moment.name, href=f"#moment-{number}"),
            word(verdict.judgement),
            None if verdict.resumed_from is None else f"step {verdict.resumed_from}",
            None if verdict.lost_steps is None else count_text(verdict.lost_steps, "step"),
            recovery,
            usd,
            why_text(verdict),
        ),
    )


def _skipped_row(name: str, heads: tuple[str, ...]) -> Html:
    skipped = tag("b", SKIPPED, class_="word warn")
    return _row(heads, (name, skipped, None, None, None, None, SKIPPED_WHY))


def _row(heads: tuple[str, ...], cells: Iterable[Child]) -> Html:
    return tag(
        "tr",
        [
            tag("td", cell or "-", data_label=head, class_=not cell and "none")
            for head, cell in zip(heads, cells, strict=True)
        ],
    )


def _legend() -> Html:
    """What the shapes and colours of all pictures mean."""
    items: list[tuple[Html, str]] = [
        (tag("path", d="M0 9L12 3", class_="curve"), "steps; they fall back where it resumes"),
        (
            tag("path", d="M6 1L11 6L6 11L1 6Z", class_="save"),
            "a save, from its begin to its end",
        ),
        (tag("path", d="M6 1L11 6L6 11L1 6Z", class_="save torn"), "a save that never completes"),
        (tag("circle", cx=6, cy=6, r=4.5, class_="restore"), "it reads a save"),
        (tag("line", x1=6, x2=6, y1=0, y2=12, class_="disturbed"), "the disturbance"),
        (tag("rect", width=12, height=12, class_="band"), "its notice, or while it lasts"),
        (tag("line", x1=6, x2=6, y1=0, y2=12, class_="recovered"), "recovered: a new step"),
    ]
    items += [(tag("rect", width=12, height=12, class_=f"part {part}"), about)
              for part, about in PARTS.items()]  # fmt: skip
    return tag(
        "ul",
        [
            tag("li", tag("svg", shape, viewBox="0 0 12 12", class_="key", aria_hidden="true"),
                " ", about)
            for shape, about in items
        ],
        class_="legend",
        aria_label="What the pictures show",
    )  # fmt: skip


def _reference(reference: ReferenceVerdict) -> Html:
    return tag(
        "section",
        tag("h2", "Reference ", word(reference.judgement)),
        tag("p", reference_text(reference)),
        _picture(reference.history, MomentMarks()),
        _checks(reference.checks),
    )


def _moment(number: int, verdict: Verdict) -> Html:
    moment = verdict.moment
    marks = MomentMarks(moment, verdict.recovery_s, verdict.resumed_from)
    return tag(
        "section",
        tag("h2", moment.name, " ", word(verdict.judgement), id=f"moment-{number}"),
        tag("p", _capital(moment.title), ". ", tag("span", moment.place, class_="muted")),
        tag("p", why, class_=f"why {verdict.judgement}") if (why := why_text(verdict)) else None,
        _picture(verdict.history, marks),
        _pairs(dict(_figures(verdict))),
        _checks(verdict.checks),
        tag("p", "replay: ", tag("code", verdict.replay)) if verdict.replay else None,
        tag("p", "kept: ", tag("code", verdict.state_dir)) if verdict.state_dir else None,
    )


def _figures(verdict: Verdict) -> Iterator[tuple[str, Child]]:
    if verdict.resumed_from is not None:
        yield "resumed from", f"step {verdict.resumed_from}"
    if verdict.lost_steps is not None:
        every = verdict.save_interval_steps
        yield (
            "lost",
            f"{count_text(verdict.lost_steps, 'step')}"
            + (f" of {every} between saves" if every else ""),
        )
    if verdict.recovery_s is not None:
        yield "recovery", seconds_text(verdict.recovery_s)
    if verdict.cost_usd is not None:
        yield "cost", f"{Usd(verdict.cost_usd)} USD"
    yield "took", seconds_text(verdict.wall_s)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _picture(history: RunHistory | None, marks: MomentMarks) -> Html | None:
    """The picture of a run; None where no slice was ever asked for."""
    return tag("figure", run_picture(history, marks)) if history and history.attempts else None


def _checks(checks: Iterable[Check]) -> Html:
    return tag(
        "ul",
        [
            tag("li", word(check.judgement), tag("b", check.name), f": {check.evidence}")
            for check in checks
        ],
        class_="checks",
    )
