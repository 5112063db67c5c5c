"""`tpuctl checkpoint copy` and `push`: copy a step between directories and buckets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.checkpoint.directory_argument import Dir, Step, survey_directory
from tpuctl.cli.checkpoint.pull import fetch_step, tell_copied
from tpuctl.cli.shell.copy_progress import show_copy
from tpuctl.cli.shell.options import completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Columns, attributes, sizes
from tpuctl.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.step_copies import PlannedCopy
    from tpuctl.operations.checkpoints.survey import DirectorySurvey

_BUCKET = "gs://"

COLUMNS: Columns["PlannedCopy"] = {
    **attributes(step="step.view.step", kind="step.view.kind.value", name="step.view.name"),
    "target": lambda copy: str(copy.target),
    "objects_sent": lambda copy: len(copy.plan.to_send),
    **sizes(bytes_sent="plan.size_bytes"),
    "objects_skipped": lambda copy: len(copy.plan.transfers) - len(copy.plan.to_send),
}
"""Keys and order are public."""


def copy(
    runtime: Runtime,
    source: Dir,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="gs://BUCKET/DIR, or a directory here.",
            autocompletion=completed_by("path or url"),
        ),
    ],
    step: Step = None,
) -> None:
    """Copy a step to another checkpoint directory.

    The directory is in a bucket or on this machine; the step counts there at once.

    Between buckets the service copies: no byte comes here. The step is there when all of it is; a
    second run sends only what is not there yet.
    """
    survey = survey_directory(runtime, source)
    if survey.place.url.startswith(_BUCKET) and not target.startswith(_BUCKET):
        done: PlannedCopy = fetch_step(runtime, survey, source, target, step)
    else:
        done = _send_step(runtime, survey, target, step)
    runtime.output.item(done, COLUMNS)
    tell_copied(runtime, done.step, target)


def push(
    runtime: Runtime,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A directory here.")],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="gs://BUCKET/DIR.", autocompletion=completed_by("url")
        ),
    ],
    step: Step = None,
) -> None:
    """Copy a step to a bucket.

    Jobs can go on from it there.

    Every byte is compared with what was saved. The step is there when all of it is; a second run
    sends only what is not there yet.
    """
    if not target.startswith(_BUCKET):
        raise UsageError(
            f"TARGET must be in a bucket, not {target!r}",
            hint="write gs://BUCKET/DIR, or run: tpuctl checkpoint copy",
        )
    if directory.startswith(_BUCKET):
        raise UsageError(
            "DIR must be a directory here", hint=f"run: tpuctl checkpoint copy {directory} {target}"
        )
    if not Path(directory).expanduser().is_dir():
        raise NotFoundError(f"there is no directory {directory!r}", hint="check the path")
    copy(runtime, directory, target, step)


def _send_step(
    runtime: Runtime, survey: "DirectorySurvey", target: str, step: str | None
) -> "PlannedCopy":
    """Copy a step to a bucket, or from one directory to another."""
    from tpuctl.operations.checkpoints import copy as operation
    from tpuctl.operations.checkpoints import step_copies
    from tpuctl.operations.stage.transfer.pool import finished_transfers

    store = runtime.store(target.rstrip("/") if target.startswith(_BUCKET) else _path(target))
    chosen = survey.choose(step)
    with step_copies.explain_failures():
        wanted = operation.plan_copy(chosen, store, runtime.checksums)
        runtime.on_interrupt.append(
            "objects already sent stay; run the same command again to go on"
        )
        with show_copy(runtime, len(wanted.plan.to_send), wanted.plan.size_bytes) as watch:
            events = operation.send(wanted, runtime.bulk)
            done = finished_transfers(events, watch, runtime.output.warn)
            errors = [event.error for event in done if event.error is not None]
        step_copies.refuse_missing(wanted, errors, runtime.output.warn)
        operation.complete(wanted)
    return wanted


def _path(target: str) -> str:
    return str(Path(target).expanduser())
