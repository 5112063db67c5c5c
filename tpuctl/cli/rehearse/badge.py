"""A badge that says how many moments a job survives, as an SVG of a few hundred bytes."""

from tpuctl.cli.rehearse.verdict_texts import count_moments
from tpuctl.cli.web.html import tag
from tpuctl.models.rehearsal.verdict import RehearsalReport

LABEL = "survives preemption"
LABEL_COLOR = "#4a4f57"
GREEN, RED, AMBER = "#1a7f37", "#b3161e", "#8a4b00"
"""White text has at least 4.5:1 on each of them."""
HEIGHT, PADDING = 20, 6
NARROW, WIDE = "fijlt1./ ", "mwMW"
NARROW_PX, USUAL_PX, WIDE_PX = 4.0, 6.8, 10.0
"""About the widths of letters of Verdana in 11 px; `textLength` makes any other font fit them."""


def badge_value(report: RehearsalReport) -> str:
    """`12/12`: the moments that the job survives, of all that were planned; without any: why."""
    counts = count_moments(report)
    if counts.total == 0:
        return report.reference.cause or "unknown"
    return f"{counts.survived}/{counts.total}"


def badge_color(report: RehearsalReport) -> str:
    """Green where all is well, red where a moment or the reference failed, else amber."""
    if report.passed and report.verdicts:
        return GREEN
    judgements = [report.reference.judgement, *(each.judgement for each in report.verdicts)]
    return RED if "fail" in judgements else AMBER


def badge_svg(report: RehearsalReport) -> str:
    """The badge, which loads nothing from elsewhere."""
    value = badge_value(report)
    left, right = text_width(LABEL) + 2 * PADDING, text_width(value) + 2 * PADDING
    width = left + right
    texts = [
        tag(
            "text", text, x=f"{x:.0f}", y=14, text_anchor="middle",
            textLength=text_width(text), lengthAdjust="spacingAndGlyphs",
        )
        for text, x in ((LABEL, left / 2), (value, left + right / 2))
    ]  # fmt: skip
    title = f"{LABEL}: {value}"
    return tag(
        "svg",
        tag("title", title),
        tag("clipPath", tag("rect", width=width, height=HEIGHT, rx=3), id="round"),
        tag(
            "g",
            tag("rect", width=left, height=HEIGHT, fill=LABEL_COLOR),
            tag("rect", x=left, width=right, height=HEIGHT, fill=badge_color(report)),
            clip_path="url(#round)",
        ),
        tag("g", texts, fill="#fff", font_family="Verdana,DejaVu Sans,sans-serif", font_size=11),
        xmlns="http://www.w3.org/2000/svg", width=width, height=HEIGHT, role="img",
        aria_label=title,
    ) + "\n"  # fmt: skip


def text_width(text: str) -> int:
    """About how many pixels a text of 11 px is wide."""
    widths = {**dict.fromkeys(NARROW, NARROW_PX), **dict.fromkeys(WIDE, WIDE_PX)}
    return round(sum(widths.get(letter, USUAL_PX) for letter in text))
