"""A rehearsal as it goes: one live table on a terminal, a line for each event elsewhere."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from tpuctl.byte_size import count_text
from tpuctl.cli.rehearse.run_board import RunBoard, show_board
from tpuctl.cli.rehearse.verdict_texts import outcome_text, reference_text, seconds_text
from tpuctl.cli.rehearse.verdict_view import print_report
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.rehearsal.verdict import RehearsalReport
from tpuctl.operations.rehearse.events import (
    MomentJudged,
    MomentsPlanned,
    ReferenceJudged,
    RehearsalEnded,
    RehearsalEvent,
    RunProgressed,
    RunStarted,
)


def render_events(runtime: Runtime, events: Iterable[RehearsalEvent]) -> RehearsalReport | None:
    """Show a rehearsal until its end and print its result; returns the report.

    None: the events ended without one.
    """
    report = None
    is_live = runtime.err.isatty() and not runtime.shared.quiet
    with ExitStack() as stack:
        if is_live:
            stack.enter_context(show_board(runtime, board := RunBoard(runtime.now)))
        lines = EventLines()
        for event in events:
            if is_live:
                board.note(event)
            else:
                for line in lines.of(event):
                    runtime.output.note(line)
            if isinstance(event, RehearsalEnded):
                report = event.report
    if report is not None:
        print_report(runtime.output, report)
    return report


class EventLines:
    """Puts events into lines: of the progress of a run only what changes its state."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, int]] = {}

    def of(self, event: RehearsalEvent) -> Iterator[str]:
        """The lines that an event is worth."""
        match event:
            case RunStarted(name):
                yield f"{name}: begins"
            case RunProgressed(name, state, step, attempt):
                if self._last.get(name) != (state, attempt):
                    self._last[name] = state, attempt
                    yield f"{name}: {state}, attempt {attempt}, step {step}"
            case ReferenceJudged(verdict):
                text = reference_text(verdict)
                took = seconds_text(verdict.wall_s)
                yield f"reference: {verdict.judgement.upper()}: {text} ({took})"
            case MomentsPlanned(moments, side_by_side):
                yield f"{count_text(len(moments), 'moment')} follow, {side_by_side} at a time"
            case MomentJudged(verdict):
                took = seconds_text(verdict.wall_s)
                text = outcome_text(verdict)
                end = f": {text} ({took})" if text else f" ({took})"
                yield f"{verdict.moment.name}: {verdict.judgement.upper()}{end}"
            case RehearsalEnded():
                pass
