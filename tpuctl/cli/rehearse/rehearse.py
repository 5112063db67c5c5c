"""`tpuctl rehearse FILE`: does the job come back, whenever its slice is taken?"""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli.rehearse.event_display import render_events
from tpuctl.cli.rehearse.report_files import (
    BadgeFile,
    HtmlFile,
    JunitFile,
    ReportFiles,
    SummaryFile,
    require_folders,
    write_files,
)
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Columns, attributes
from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.errors import JobFailedError, PartialFailureError, RefusedError
from tpuctl.models.duration import parse_duration
from tpuctl.models.rehearsal.moment import Moment
from tpuctl.models.rehearsal.verdict import Judgement, RehearsalReport

PLANNED: Columns[Moment] = attributes("name", "title", "place")
"""A moment that would be tried. Keys are public."""


def rehearse(  # noqa: PLR0913 (each is an option)
    runtime: Runtime,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The job file.")],
    only: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME...]",
            help="Only these moments: save:middle/none, save:middle for every notice, save:*/5s.",
        ),
    ] = None,
    moments: Annotated[
        bool, typer.Option("--moments", help="List the moments of the job, and try none.")
    ] = False,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Decides which save, object, step and worker.")
    ] = 0,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Try each moment so many times.")
    ] = 1,
    budget_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Begin nothing that would not end in time, such as 10m."),
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The workers' python3. Without it: the one of tpuctl."),
    ] = None,
    junit: JunitFile = None,
    html: HtmlFile = None,
    summary: SummaryFile = None,
    badge: BadgeFile = None,
) -> None:
    """Run a job on simulated slices, disturb it at its worst moments, and say whether it survives.

    Two undisturbed runs show what the program does; then it is preempted, cut off, slowed down and
    left alone, once for each moment, on a cloud of its own each time. Nothing is asked of Google.
    """
    from tpuctl.operations.rehearse import rehearsal

    _refuse_other_contexts(runtime)
    files = ReportFiles(junit, html, summary, badge)
    require_folders(files)
    request = rehearsal.RehearsalRequest(
        file=file,
        only=tuple(name.strip() for name in only.split(",")) if only else (),
        seed=seed,
        repeat=repeat,
        budget_s=parse_duration(budget_time) if budget_time else None,
        python=python,
    )
    if moments:
        with closing(rehearsal.list_moments(runtime, request)) as found:
            runtime.output.items(list(found), PLANNED)
        return
    began_s = runtime.now()
    with closing(rehearsal.rehearse(runtime, request)) as events:
        report = render_events(runtime, events)
    if report is not None:
        write_files(files, report, began_s=began_s)
        _require_passed(report)


def _require_passed(report: RehearsalReport) -> None:
    """Raise the error that a report stands for, unless all of it passed."""
    failed = [each for each in report.verdicts if each.judgement == Judgement.FAIL]
    if report.reference.judgement == Judgement.FAIL:
        raise JobFailedError(
            f"job {report.job!r} cannot be rehearsed: {report.reference.explanation}"
        )
    if failed:
        raise JobFailedError(
            f"job {report.job!r} does not survive {len(failed)} of {len(report.verdicts)} moments",
            hint=f"run: {failed[0].replay}",
        )
    if not report.passed:
        raise PartialFailureError(f"not every moment of job {report.job!r} could be judged")


def _refuse_other_contexts(runtime: Runtime) -> None:
    chosen = runtime.context_name
    if chosen.source != "config.yaml" and chosen.value != DEFAULT_CONTEXT:
        raise RefusedError(
            f"a rehearsal runs on clouds of its own, not on context {chosen.value!r} "
            f"({chosen.source})",
            hint="run: tpuctl -c local rehearse FILE",
        )
