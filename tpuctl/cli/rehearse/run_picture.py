"""A run drawn over its time: steps as a curve that falls back, saves, attempts, the disturbance.

Positions along the time are percentages, all else is in pixels: so the picture is as wide as a
window or a telephone, and its texts keep their size.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from tpuctl.cli.rehearse.verdict_texts import seconds_text
from tpuctl.cli.web.html import Html, join, tag
from tpuctl.models.rehearsal.moment import Moment
from tpuctl.models.rehearsal.run_history import AttemptSpan, LoggedStep, RunHistory, SaveSpan

CURVE_TOP, CURVE_BOTTOM = 44, 168
LANE_TOP, LANE_HEIGHT = 180, 18
AXIS_Y = 216
HEIGHT = 222
TICKS = 4
DIAMOND = 5
MIDDLE_PERCENT = 50.0
WIDE_PERCENT = 16.0
"""An attempt this wide has room for the word `attempt`, on a telephone too."""
ROUND_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
"""Distances of ticks that are easy to read."""


@dataclass(frozen=True, slots=True)
class PictureScale:
    """Where times and steps are drawn."""

    end_s: float
    top_step: int

    def x(self, time_s: float) -> float:
        """A time in percent of the width."""
        return 100 * min(max(time_s, 0.0), self.end_s) / self.end_s

    def y(self, step: int) -> float:
        """A step in pixels from the top."""
        return CURVE_BOTTOM - (CURVE_BOTTOM - CURVE_TOP) * step / self.top_step


@dataclass(frozen=True, slots=True)
class MomentMarks:
    """What a verdict adds to the history of its run."""

    moment: Moment | None = None
    recovery_s: float | None = None
    resumed_from: int | None = None


def run_picture(history: RunHistory, marks: MomentMarks) -> Html:
    """The picture, with the same in words for who does not see it."""
    top = max((each.step for each in history.steps), default=1)
    scale = PictureScale(max(history.ended_s, 0.001), max(top, 1))
    return tag(
        "svg",
        _axis(scale),
        _grid(scale),
        _attempts(history, scale),
        _disturbances(history, marks, scale),
        _curve(history.steps, scale),
        _restores(history, marks, scale),
        _saves(history.saves, scale),
        role="img", aria_label="; ".join(picture_words(history, marks)), class_="run",
        width="100%", height=HEIGHT,
    )  # fmt: skip


def picture_words(history: RunHistory, marks: MomentMarks) -> Iterator[str]:
    """What the picture shows, one sentence after the other."""
    for attempt in history.attempts:
        steps = [each.step for each in history.steps if each.attempt == attempt.number]
        made = f", steps {steps[0]} to {steps[-1]}" if steps else ", no step"
        end_s = history.ended_s if attempt.ended_s is None else attempt.ended_s
        took = f"{seconds_text(attempt.requested_s)} to {seconds_text(end_s)}"
        yield f"attempt {attempt.number} {attempt.outcome or 'open'}, {took}{made}"
    whole = sum(save.complete_s is not None for save in history.saves)
    yield f"{whole} complete saves, {len(history.saves) - whole} incomplete"
    for time_s in _disturbed_s(history)[:1]:
        yield f"{_disturbance_text(marks.moment)} at {seconds_text(time_s)}"
    recovered_s = _recovered_s(history, marks)
    if recovered_s is not None:
        yield f"recovered at {seconds_text(recovered_s)}"


def _disturbed_s(history: RunHistory) -> list[float]:
    return [each.time_s for each in history.disturbances]


def _recovered_s(history: RunHistory, marks: MomentMarks) -> float | None:
    times_s = _disturbed_s(history)
    return times_s[0] + marks.recovery_s if times_s and marks.recovery_s is not None else None


def _axis(scale: PictureScale) -> Html:
    """Seconds below the picture, at round distances."""
    distance_s = next((each for each in ROUND_S if scale.end_s / each <= TICKS), ROUND_S[-1])
    times_s = [number * distance_s for number in range(int(scale.end_s // distance_s) + 1)]
    return join([_tick(time_s, scale) for time_s in times_s])


def _tick(time_s: float, scale: PictureScale) -> Html:
    x = scale.x(time_s)
    line = _line(x, x, CURVE_TOP, LANE_TOP + LANE_HEIGHT, "tick")
    text = "0" if time_s == 0 else seconds_text(time_s) if time_s >= 10 else f"{time_s:.0f} s"
    return join([line, _text(text, x, AXIS_Y, "muted")])


def _grid(scale: PictureScale) -> Html:
    """A line at the last step and at half of it; its number stands where the curve is not yet."""
    steps = sorted({scale.top_step, scale.top_step // 2} - {0})
    lines = [_line(0, 100, scale.y(step), scale.y(step), "tick") for step in steps]
    texts = [
        tag("text", f"step {step}", x=0, y=f"{scale.y(step) - 4:.1f}", class_="muted")
        for step in steps
    ]
    return join([*lines, *texts])


def _attempts(history: RunHistory, scale: PictureScale) -> Html:
    return join([_attempt(each, history, scale) for each in history.attempts])


def attempt_parts(
    attempt: AttemptSpan, first_step_s: float | None, end_s: float
) -> Iterator[tuple[str, float, float]]:
    """The parts of an attempt: the name of its colour, from when and until when."""
    ended_s = end_s if attempt.ended_s is None else attempt.ended_s
    starts = [
        ("waiting", attempt.requested_s),
        ("provisioning", attempt.provisioning_s),
        ("preparing", attempt.ready_s),
        ("compiling", attempt.started_s),
        ("training", first_step_s),
    ]
    known = [(part, begin_s) for part, begin_s in starts if begin_s is not None]
    for (part, begin_s), (_, next_s) in pairwise([*known, ("", ended_s)]):
        if next_s > begin_s:
            yield part, begin_s, next_s


def _attempt(attempt: AttemptSpan, history: RunHistory, scale: PictureScale) -> Html:
    first_s = next((s.time_s for s in history.steps if s.attempt == attempt.number), None)
    parts = list(attempt_parts(attempt, first_s, history.ended_s))
    bars = [
        tag(
            "rect", tag("title", f"attempt {attempt.number}: {part}"), y=LANE_TOP,
            x=_percent(scale.x(begin_s)), width=_percent(scale.x(end_s) - scale.x(begin_s)),
            height=LANE_HEIGHT, class_=f"part {part}",
        )
        for part, begin_s, end_s in parts
    ]  # fmt: skip
    return join(bars)


def _disturbances(history: RunHistory, marks: MomentMarks, scale: PictureScale) -> Html:
    """A line where the disturbance came, a band for its notice, and a line at the recovery."""
    bottom, shown = LANE_TOP + LANE_HEIGHT, []
    for number, time_s in enumerate(_disturbed_s(history)):
        x = scale.x(time_s)
        lost_s = _lost_s(history, time_s)
        notice_s = marks.moment.notice_s if marks.moment else None
        if notice_s and lost_s is not None:
            width = _percent(scale.x(lost_s) - x)
            shown.append(
                tag("rect", x=_percent(x), width=width, y=CURVE_TOP - 28,
                    height=bottom - CURVE_TOP + 28, class_="notice")
            )  # fmt: skip
        shown.append(_line(x, x, CURVE_TOP - 28, bottom, "disturbed"))
        if number == 0:
            shown.append(_text(_disturbance_text(marks.moment), x, CURVE_TOP - 32, "bad", gap=0))
    recovered_s = _recovered_s(history, marks)
    if recovered_s is not None and recovered_s <= history.ended_s:
        x = scale.x(recovered_s)
        shown.append(_line(x, x, CURVE_TOP - 12, bottom, "recovered"))
        text = f"recovered in {seconds_text(marks.recovery_s or 0.0)}"
        shown.append(_text(text, x, CURVE_TOP - 16, "good", gap=4))
    return join(shown)


def _lost_s(history: RunHistory, time_s: float) -> float | None:
    """When the attempt that a disturbance hit ended."""
    ends = [each.ended_s for each in history.attempts if each.ended_s is not None]
    return min((end_s for end_s in ends if end_s >= time_s), default=None)


def _disturbance_text(moment: Moment | None) -> str:
    """`preemption, 30 s of notice`."""
    if moment is None:
        return "disturbance"
    name = moment.disturbance.replace("-", " ")
    if moment.notice_s is None:
        return name
    return f"{name}, {f'{moment.notice_s:.0f} s of' if moment.notice_s else 'no'} notice"


def _curve(steps: Sequence[LoggedStep], scale: PictureScale) -> Html:
    """A line for the steps of each attempt, in a picture of its own that is stretched."""
    lines = [
        tag(
            "polyline",
            points=" ".join(f"{10 * scale.x(s.time_s):.1f},{scale.y(s.step):.1f}" for s in mine),
            class_="curve",
        )
        for _, group in groupby(steps, key=lambda each: each.attempt)
        if (mine := list(group))
    ]
    return tag(
        "svg", lines, viewBox=f"0 0 1000 {HEIGHT}", preserveAspectRatio="none", width="100%",
        height=HEIGHT,
    )  # fmt: skip


def _restores(history: RunHistory, marks: MomentMarks, scale: PictureScale) -> Html:
    """A ring where a later attempt read a save, at the height of its step."""
    step = marks.resumed_from or 0
    return join(
        [
            tag(
                "circle", tag("title", f"reads a save at {seconds_text(time_s)}"),
                cx=_percent(scale.x(time_s)), cy=f"{scale.y(step):.1f}", r=DIAMOND, class_="restore",
            )
            for time_s in history.restores_s
        ]
    )  # fmt: skip


def _saves(saves: Iterable[SaveSpan], scale: PictureScale) -> Html:
    """A diamond for each complete save, a hollow one where a save never was complete."""
    return join([_save(each, scale) for each in saves])


def _save(save: SaveSpan, scale: PictureScale) -> Html:
    is_whole = save.complete_s is not None
    time_s = save.began_s if save.complete_s is None else save.complete_s
    y = CURVE_BOTTOM if save.step is None else scale.y(save.step)
    what = f"save of step {save.step}" if save.step is not None else "save"
    size = 2 * DIAMOND
    shape = tag(
        "path", d=f"M{DIAMOND} 0L{size} {DIAMOND}L{DIAMOND} {size}L0 {DIAMOND}Z",
        class_="save" if is_whole else "save torn",
    )  # fmt: skip
    title = tag("title", f"{what}, {'complete' if is_whole else 'never complete'}")
    corner = tag("svg", title, shape, x=-DIAMOND, y=f"{y - DIAMOND:.1f}", overflow="visible")
    return tag("svg", corner, x=_percent(scale.x(time_s)), overflow="visible")


def _line(x1: float, x2: float, y1: float, y2: float, kind: str) -> Html:
    return tag(
        "line", x1=_percent(x1), x2=_percent(x2), y1=f"{y1:.1f}", y2=f"{y2:.1f}", class_=kind
    )


def _text(text: str, x: float, y: float, kind: str, gap: int = 0) -> Html:
    """A text beside a time: on its right in the first half, else on its left."""
    is_left = x > MIDDLE_PERCENT
    return tag(
        "text", text, x=_percent(x), y=f"{y:.1f}", dx=-gap if is_left else gap,
        text_anchor="end" if is_left else "start", class_=kind,
    )  # fmt: skip


def _percent(value: float) -> str:
    return f"{value:.2f}%"
