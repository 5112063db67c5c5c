"""`tpuctl rehearse FILE`: does the job come back, whenever its slice is taken?"""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli.rehearse.event_display import render_events, render_moments
from tpuctl.cli.rehearse.report_files import (
    BadgeFile,
    HtmlFile,
    JunitFile,
    ReportFiles,
    SummaryFile,
)
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.errors import RefusedError
from tpuctl.models.duration import parse_duration


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
        int, typer.Option(metavar="N", help="Chooses the save, object, step and worker.")
    ] = 0,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Try each moment N times.")
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

    Two undisturbed runs show what the program does. One run follows for each moment: the job is
    preempted, cut off, slowed down, or left without its supervisor. Each run has a cloud of its
    own, and none asks Google for anything.
    """
    from tpuctl.operations.rehearse import rehearsal
    from tpuctl.operations.rehearse.report_error import error_of, reference_error

    _refuse_other_contexts(runtime)
    files = ReportFiles(junit, html, summary, badge)
    request = rehearsal.RehearsalRequest(
        file=file,
        only=tuple(name.strip() for name in only.split(",")) if only else (),
        seed=seed,
        repeat=repeat,
        budget_s=parse_duration(budget_time) if budget_time else None,
        python=python,
        plans_only=moments,
    )
    with closing(rehearsal.rehearse(runtime, request)) as events:
        if moments:
            error = reference_error(render_moments(runtime, events))
        else:
            error = error_of(render_events(runtime, events, files))
    if error is not None:
        raise error


def _refuse_other_contexts(runtime: Runtime) -> None:
    chosen = runtime.context_name
    if chosen.source != "config.yaml" and chosen.value != DEFAULT_CONTEXT:
        raise RefusedError(
            f"a rehearsal runs on clouds of its own, not on context {chosen.value!r} "
            f"({chosen.source})",
            hint="run: tpuctl -c local rehearse FILE",
        )
