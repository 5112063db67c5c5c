"""A page: sections, some of which are kept up to date, in the frame that all pages share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tpuctl.cli.shell.tables.values import Usd
from tpuctl.cli.web.html import Child, Html, join, link, tag
from tpuctl.metrics.findings.observation import Finding

HTTP_STATUS = {2: 400, 10: 404, 11: 409, 12: 409, 21: 403, 40: 503, 41: 504, 80: 403}
"""Exit code of an error -> status of the page that says it; any other is 502."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows."""

    title: str
    live: Mapping[str, Html] = field(default_factory=dict)
    """Sections by their ids, which the server sends again when they change."""
    fixed: Mapping[str, Html] = field(default_factory=dict)
    """Sections that stay as they are: charts, forms, logs."""
    order: Sequence[str] = ()
    """Ids in the order of the page; those that are missing here come last."""
    back: tuple[Child, ...] = ()
    """Links to the pages above this one."""
    has_charts: bool = False
    is_over: bool = False
    """Nothing of it changes any more."""
    every_s: float = 2.0
    """How often its live sections are made again."""

    @property
    def sections(self) -> dict[str, Html]:
        """All sections in their order."""
        both = {**self.live, **self.fixed}
        first = [key for key in self.order if key in both]
        return {key: both[key] for key in (*first, *(key for key in both if key not in first))}


def document(page: Page, context: str, messages: Sequence[str] = ()) -> Html:
    """The whole page, complete without scripts."""
    scripts = ["uplot/uPlot.iife.min.js", "charts.js"] if page.has_charts else []
    styles = ["palette.css", "dashboard.css", *(["uplot/uPlot.min.css"] if page.has_charts else [])]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{page.title} - tpuctl"),
        [tag("link", rel="stylesheet", href=f"/assets/{name}") for name in styles],
        tag("link", rel="icon", href="/assets/icon.svg"),
        [tag("script", src=f"/assets/{name}", defer=True) for name in (*scripts, "live.js")],
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        _header(page, context),
        tag(
            "main",
            tag("h1", page.title),
            [tag("p", text, class_="message", role="status") for text in messages],
            [_section(key, html, page) for key, html in page.sections.items()],
            id="content",
            data_live=bool(page.live) and not page.is_over,
        ),
    )
    return Html(f"<!doctype html>\n{tag('html', head, body, lang='en')}\n")


def _header(page: Page, context: str) -> Html:
    trail = [link("Overview"), *page.back] if page.back or page.title != "Overview" else []
    return tag(
        "header",
        tag("p", tag("b", "tpuctl"), f" context {context}"),
        tag("nav", [[each, " "] for each in trail], aria_label="Pages above") if trail else None,
        tag("p", "", id="connection", role="status", class_="muted"),
    )


def _section(key: str, html: Html, page: Page) -> Html:
    return tag("section", html, id=key, data_section=key in page.live)


def heading(text: str, *rest: Child) -> Html:
    """The heading of a section, and what comes after it."""
    return join([tag("h2", text), *rest])


def facts(pairs: Mapping[str, Child]) -> Html:
    """Names and their values, without those that have none."""
    shown = {key: value for key, value in pairs.items() if value not in (None, "")}
    return tag("dl", [tag("div", tag("dt", key), tag("dd", v)) for key, v in shown.items()])


GOOD = frozenset({"READY", "ACTIVE", "SUCCEEDED", "RUNNING", "COMPLETE", "succeeded"})
BAD = frozenset(
    {"PREEMPTED", "SUSPENDED", "FAILED", "TERMINATED", "CORRUPT", "LOST", "DELETED", "preempted",
     "failed", "hung", "lost"}
)  # fmt: skip


def state(text: str) -> Html:
    """A state in its colour; the word says it without."""
    kind = "good" if text in GOOD else "bad" if text in BAD else "warn"
    return tag("b", text, class_=f"state {kind}")


def findings_list(findings: Sequence[Finding], typed: Callable[[str], str]) -> Html:
    """What is wrong, each with its evidence and the command to run next, as it is typed."""
    if not findings:
        calm = tag("p", "Nothing is known to be wrong.", class_="muted")
        return heading("What is wrong", calm)
    items = [
        tag(
            "li",
            tag("p", tag("b", each.sentence)),
            tag("p", each.evidence, class_="muted"),
            tag("p", "run: ", tag("code", typed(each.command))),
        )
        for each in findings
    ]
    return heading("What is wrong", tag("ul", items, class_="findings"))


def missing_list(lines: Sequence[str]) -> Html:
    """What could not be read; empty where all could."""
    return tag("ul", [tag("li", line) for line in lines], class_="missing") if lines else Html("")


def usd_text(amount: float | None) -> str:
    """US dollars, or that no price is known."""
    return "no known price" if amount is None else f"{Usd(amount)} USD"
