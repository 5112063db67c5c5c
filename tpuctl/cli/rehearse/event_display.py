"""A rehearsal as it goes: one live table on a terminal, a line for each event elsewhere."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tpuctl.byte_size import count_text
from tpuctl.cli.rehearse.report_files import ReportFiles, require_folders, write_files
from tpuctl.cli.rehearse.run_board import RunBoard, show_board
from tpuctl.cli.rehearse.verdict_texts import outcome_text, reference_text, seconds_text
from tpuctl.cli.rehearse.verdict_view import PLANNED, print_report
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.rehearsal.moment import Moment
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

NO_FILES = ReportFiles()


def render_events(
    runtime: Runtime, events: Iterable[RehearsalEvent], files: ReportFiles = NO_FILES
) -> RehearsalReport:
    """Show a rehearsal until its end, print its result and write `files`; returns the report.

    Raises LocalIOError for a file that cannot be written: for one without a directory at once, for
    any other one after the result is printed.
    """
    require_folders(files)
    began_s = runtime.now()
    report, _ = show_events(runtime, events)
    print_report(runtime.output, report)
    for path in write_files(files, report, began_s=began_s):
        runtime.output.note(f"wrote {path}")
    return report


def render_moments(runtime: Runtime, events: Iterable[RehearsalEvent]) -> RehearsalReport:
    """Show a rehearsal that only plans, and print its moments; returns the report.

    Without a moment the reference tells why.
    """
    report, moments = show_events(runtime, events)
    if moments or runtime.output.is_document:
        runtime.output.items(moments, PLANNED, title="moments")
    else:
        print_report(runtime.output, report)
    return report


class ShownRehearsal(NamedTuple):
    """What the events of a rehearsal brought: its report, and the moments that were planned."""

    report: RehearsalReport
    moments: tuple[Moment, ...]


def show_events(runtime: Runtime, events: Iterable[RehearsalEvent]) -> ShownRehearsal:
    """Show the events of a rehearsal as they come; the last one has the report."""
    moments: tuple[Moment, ...] = ()
    report: RehearsalReport | None = None
    with _event_sink(runtime) as note:
        for event in events:
            note(event)
            if isinstance(event, MomentsPlanned):
                moments = event.moments
            elif isinstance(event, RehearsalEnded):
                report = event.report
    assert report is not None
    return ShownRehearsal(report, moments)


@contextmanager
def _event_sink(runtime: Runtime) -> Iterator[Callable[[RehearsalEvent], None]]:
    """What shows an event: a table that is there during the block, or lines."""
    if runtime.err.isatty() and not runtime.shared.quiet:
        board = RunBoard(runtime.now)
        with show_board(runtime, board):
            yield board.note
        return
    lines = EventLines()

    def note(event: RehearsalEvent) -> None:
        for line in lines.of(event):
            runtime.output.note(line)

    yield note


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
                follow = "follows" if len(moments) == 1 else "follow"
                yield f"{count_text(len(moments), 'moment')} {follow}, {side_by_side} at a time"
            case MomentJudged(verdict):
                took = seconds_text(verdict.wall_s)
                text = outcome_text(verdict)
                end = f": {text} ({took})" if text else f" ({took})"
                yield f"{verdict.moment.name}: {verdict.judgement.upper()}{end}"
            case RehearsalEnded():
                pass
