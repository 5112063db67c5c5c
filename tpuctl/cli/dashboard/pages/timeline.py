"""Where the seconds and the dollars of a job went, drawn to scale."""

from collections.abc import Mapping, Sequence

from tpuctl.cli.dashboard.page import facts, heading, usd_text
from tpuctl.cli.shell.tables.values import PointInTime
from tpuctl.cli.web.html import Child, Html, join, table, tag
from tpuctl.metrics.goodput.accounting import Billed, Goodput, PartTotal, account, usd_of
from tpuctl.metrics.goodput.time_parts import Span, TimePart
from tpuctl.models.job import AttemptOutcome, JobRecord
from tpuctl.operations.slices import spending

WIDTH = 1000.0
HEIGHT = 24
MOST_LANES = 20
"""Attempts that have a lane; of more the newest."""
MEANINGS: Mapping[TimePart, str] = {
    TimePart.WAITING: "no slice yet",
    TimePart.PROVISIONING: "the slice is being made",
    TimePart.PREPARING: "workers are set up",
    TimePart.COMPILING: "up to the first step",
    TimePart.TRAINING: "progress that stayed",
    TimePart.SAVING: "waits for checkpoints",
    TimePart.LOST: "made again later, or hung",
    TimePart.RECOVERING: "from one attempt to the next",
    TimePart.IDLE: "a slice without work",
}
"""What each part stands for, in a few words; docs/goodput.md defines them."""


def timeline(job: JobRecord, now_s: float) -> Html:
    """A lane for all of the job's time and one for each attempt, and the sums of the parts."""
    spans, billed = spending.history_of(job, now_s)
    goodput = account(spans, billed)
    if not spans or goodput.wall_s <= 0:
        return heading("Time and money", tag("p", "No time has gone by yet.", class_="muted"))
    usd = [each.usd for each in goodput.parts]
    bill = None if None in usd else sum(each or 0.0 for each in usd)
    share = goodput.share or 0.0
    summary = facts(
        {
            "goodput": f"{100 * share:.0f} %",
            "time": duration_text(goodput.wall_s),
            "cost": usd_text(bill),
            "from": str(PointInTime(spans[0].begin_s)),
            "to": "now" if job.ended_s is None else str(PointInTime(spans[-1].end_s)),
        }
    )
    return heading("Time and money", summary, _lanes(job, spans, billed), _parts(goodput, bill))


def _lanes(job: JobRecord, spans: Sequence[Span], billed: Sequence[Billed]) -> Html:
    rows: list[tuple[str, Sequence[Span]]] = [("all", spans)]
    if len(job.attempts) > 1:
        for attempt in job.attempts[-MOST_LANES:]:
            mine = [span for span in spans if span.attempt == attempt.number]
            rows.append((f"{attempt.number} {attempt.outcome or attempt.state}", mine))
    lost = [
        attempt.ended_s
        for attempt in job.attempts
        if attempt.outcome == AttemptOutcome.PREEMPTED and attempt.ended_s is not None
    ]
    begin_s, end_s = spans[0].begin_s, spans[-1].end_s
    scale = WIDTH / (end_s - begin_s)
    marks = [(time_s - begin_s) * scale for time_s in lost]
    return tag(
        "div",
        [
            tag(
                "div", tag("span", label), _lane(mine, billed, begin_s, scale, marks), class_="lane"
            )
            for label, mine in rows
        ],
        tag("p", f"Dashed: {len(lost)} preempted.", class_="muted") if lost else None,
        class_="lanes",
    )


def _lane(
    spans: Sequence[Span], billed: Sequence[Billed], begin_s: float, scale: float,
    marks: Sequence[float],
) -> Html:  # fmt: skip
    """The spans of a lane as a picture over the whole time of the job."""
    bars = [
        tag(
            "rect",
            tag("title", _span_text(span, usd_of(span, billed))),
            x=f"{(span.begin_s - begin_s) * scale:.2f}",
            width=f"{span.seconds * scale:.2f}",
            height=HEIGHT,
            class_=f"part {span.part}",
        )
        for span in spans
    ]
    lines = [
        tag("line", x1=f"{x:.2f}", x2=f"{x:.2f}", y1=0, y2=HEIGHT, class_="preempted")
        for x in marks
    ]
    words = "; ".join(_span_text(span, usd_of(span, billed)) for span in spans)
    return tag(
        "svg", bars, lines, role="img", aria_label=words or "no time",
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT}", preserveAspectRatio="none",
    )  # fmt: skip


def _span_text(span: Span, usd: float | None) -> str:
    cost = f", {usd_text(usd)}" if usd else ""
    return f"{span.part} {duration_text(span.seconds)}{cost}"


def _parts(goodput: Goodput, bill: float | None) -> Html:
    """A row for each part with its time and money, and their sums."""
    columns = {
        "part": _part_name,
        "time": lambda each: duration_text(each.seconds),
        "share": lambda each: f"{100 * each.seconds / goodput.wall_s:.1f} %",
        "cost": lambda each: usd_text(each.usd),
        "what it is": lambda each: MEANINGS[each.part],
    }
    total = tag("p", f"Together {duration_text(goodput.wall_s)}, {usd_text(bill)}.", class_="muted")
    return join([table("Parts of the time", columns, goodput.parts), total])


def _part_name(each: PartTotal) -> Child:
    square = tag("rect", width=10, height=10, class_=f"part {each.part}")
    swatch = tag("svg", square, viewBox="0 0 10 10", class_="swatch", aria_hidden="true")
    return [swatch, " ", str(each.part)]


def duration_text(seconds: float) -> str:
    """A duration as `45 s`, `5 m 12 s` or `2 h 05 m`."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02} m"
