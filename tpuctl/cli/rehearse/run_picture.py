"""A run drawn over its time: steps as a curve that falls back, saves, attempts, the disturbance.

Positions along the time are percentages, all else is in pixels: so the picture is as wide as a
window or a telephone, and its texts keep their size.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from tpuctl.cli.rehearse.timeline_entries import entry_lasts_s, entry_named, entry_text
from tpuctl.cli.rehearse.verdict_texts import seconds_text
from tpuctl.cli.web.html import Html, join, tag
from tpuctl.models.rehearsal.moment import Moment
from tpuctl.models.rehearsal.run_history import (
    AttemptSpan,
    FiredDisturbance,
    LoggedStep,
    RunHistory,
    SaveSpan,
)

CURVE_TOP, CURVE_BOTTOM = 44, 168
LANE_TOP, LANE_HEIGHT = 192, 16
LANE_BOTTOM = LANE_TOP + LANE_HEIGHT
AXIS_Y = LANE_BOTTOM + 16
HEIGHT = AXIS_Y + 6
DISTURBED_TOP, RECOVERED_TOP = CURVE_TOP - 28, CURVE_TOP - 12
"""Where their lines begin, below a row of text each."""
TICKS = 4
DIAMOND = 5
MIDDLE_PERCENT, EDGE_PERCENT = 50.0, 4.0
APART_PERCENT = 45.0
"""Names of disturbances that are nearer to each other would touch on a telephone."""
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
    steps = [each.step for each in history.steps]
    saved = [each.step or 0 for each in history.saves]
    top_step = max(1, marks.resumed_from or 0, *steps, *saved)
    scale = PictureScale(max(history.ended_s, 0.001), top_step)
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
    for fired in history.disturbances:
        yield f"{_fired_text(fired, marks)} at {seconds_text(fired.time_s)}"
    recovered_s = _recovered_s(history, marks)
    if recovered_s is not None:
        yield f"recovered at {seconds_text(recovered_s)}"


def _fired_text(fired: FiredDisturbance, marks: MomentMarks) -> str:
    moment = marks.moment
    return entry_text(entry_named(moment, fired.name), moment) if moment else fired.name


def _recovered_s(history: RunHistory, marks: MomentMarks) -> float | None:
    """When the first new step was made, counted from the last disturbance."""
    times_s = [each.time_s for each in history.disturbances]
    return max(times_s) + marks.recovery_s if times_s and marks.recovery_s is not None else None


def _axis(scale: PictureScale) -> Html:
    """Seconds below the picture, at round distances."""
    distance_s = next((each for each in ROUND_S if scale.end_s / each <= TICKS), ROUND_S[-1])
    times_s = [number * distance_s for number in range(int(scale.end_s // distance_s) + 1)]
    return join([_tick(time_s, scale) for time_s in times_s])


def _tick(time_s: float, scale: PictureScale) -> Html:
    x = scale.x(time_s)
    line = _line(x, x, CURVE_TOP, LANE_BOTTOM, "tick")
    text = "0" if time_s == 0 else seconds_text(time_s) if time_s >= 10 else f"{time_s:.0f} s"
    anchor = "start" if x < EDGE_PERCENT else "end" if x > 100 - EDGE_PERCENT else "middle"
    label = tag("text", text, x=_percent(x), y=AXIS_Y, text_anchor=anchor, class_="muted")
    return join([line, label])


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
    x, end_x = (scale.x(time_s) for time_s in (parts[0][1], parts[-1][2])) if parts else (0.0, 0.0)
    name = f"attempt {attempt.number}" if end_x - x >= WIDE_PERCENT else str(attempt.number)
    return join([*bars, tag("text", name, x=_percent(x), y=LANE_TOP - 5, class_="muted")])


def _disturbances(history: RunHistory, marks: MomentMarks, scale: PictureScale) -> Html:
    """A line and a band for each disturbance, and a line at the recovery."""
    shown, named_x = [], -APART_PERCENT
    for fired in history.disturbances:
        x = scale.x(fired.time_s)
        entry = entry_named(marks.moment, fired.name) if marks.moment else {}
        shown.append(_disturbance(fired.time_s, entry_lasts_s(entry), history, scale))
        if x - named_x >= APART_PERCENT:
            shown.append(_text(_fired_text(fired, marks), x, DISTURBED_TOP - 4, "bad"))
            named_x = x
    recovered_s = _recovered_s(history, marks)
    if recovered_s is not None and recovered_s <= history.ended_s:
        x = scale.x(recovered_s)
        text = f"recovered in {seconds_text(marks.recovery_s or 0.0)}"
        shown.append(_line(x, x, RECOVERED_TOP, LANE_BOTTOM, "recovered"))
        shown.append(_text(text, x, RECOVERED_TOP - 4, "good"))
    return join(shown)


def _disturbance(
    time_s: float, lasts_s: float | None, history: RunHistory, scale: PictureScale
) -> Html:
    """A line, and a band for as long as it lasts, which is at most to the end of the attempt."""
    x = scale.x(time_s)
    line = _line(x, x, DISTURBED_TOP, LANE_BOTTOM, "disturbed")
    if not lasts_s:
        return line
    ends_s = [each.ended_s for each in history.attempts if (each.ended_s or 0.0) >= time_s]
    end_s = min((time_s + lasts_s, *(end_s for end_s in ends_s if end_s is not None)))
    band = tag(
        "rect", x=_percent(x), width=_percent(scale.x(end_s) - x), y=DISTURBED_TOP,
        height=LANE_BOTTOM - DISTURBED_TOP, class_="band",
    )  # fmt: skip
    return join([band, line])


def _curve(steps: Sequence[LoggedStep], scale: PictureScale) -> Html:
    """A line for the steps of each attempt, and a thin one from each to the next."""
    runs = [list(group) for _, group in groupby(steps, key=lambda each: each.attempt)]
    lines = [_polyline(mine, scale, "curve") for mine in runs]
    falls = [_polyline([one[-1], other[0]], scale, "fall") for one, other in pairwise(runs)]
    # A picture of its own, that is stretched: a polyline has no percentages.
    return tag(
        "svg", falls, lines, viewBox=f"0 0 1000 {HEIGHT}", preserveAspectRatio="none",
        width="100%", height=HEIGHT,
    )  # fmt: skip


def _polyline(steps: Iterable[LoggedStep], scale: PictureScale, kind: str) -> Html:
    points = " ".join(f"{10 * scale.x(each.time_s):.1f},{scale.y(each.step):.1f}" for each in steps)
    return tag("polyline", points=points, class_=kind)


def _restores(history: RunHistory, marks: MomentMarks, scale: PictureScale) -> Html:
    """A ring where a later attempt read a save, at the height of its step."""
    step = marks.resumed_from or 0
    return join(
        [
            tag(
                "circle", tag("title", f"reads a save at {seconds_text(time_s)}"), r=DIAMOND,
                cx=_percent(scale.x(time_s)), cy=f"{scale.y(step):.1f}", class_="restore",
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
    diamond = tag("svg", corner, x=_percent(scale.x(time_s)), overflow="visible")
    line = _line(scale.x(save.began_s), scale.x(time_s), y, y, "saving")
    return join([line, diamond])


def _line(x1: float, x2: float, y1: float, y2: float, kind: str) -> Html:
    return tag(
        "line", x1=_percent(x1), x2=_percent(x2), y1=f"{y1:.1f}", y2=f"{y2:.1f}", class_=kind
    )


def _text(text: str, x: float, y: float, kind: str) -> Html:
    """A text beside a time: on its right in the first half, else on its left."""
    is_left = x > MIDDLE_PERCENT
    return tag(
        "text", text, x=_percent(x), y=f"{y:.1f}", text_anchor="end" if is_left else "start",
        class_=kind,
    )  # fmt: skip


def _percent(value: float) -> str:
    return f"{value:.2f}%"
