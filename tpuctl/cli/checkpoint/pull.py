"""`tpuctl checkpoint pull`: a step comes here, verified and complete, or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.checkpoint.directory_argument import Dir, Step, survey_directory
from tpuctl.cli.shell.copy_progress import show_copy, size_text
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import (
    LocalIOError,
    NotFoundError,
    PartialFailureError,
    RefusedError,
    TpuctlError,
    UsageError,
)
from tpuctl.models.transfer import TransferFinished, TransferNotice, TransferProgress

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.pull import StepPull
    from tpuctl.operations.checkpoints.step_view import StepView
    from tpuctl.store.gcs.bulk import BulkBucket


RERUN_HINT = "run the same command again: what is there is not fetched twice"
_HINTS: dict[type[TpuctlError], str] = {
    LocalIOError: "see that DEST has room and may be written, then run the same command again",
    RefusedError: "name another directory",
}


@dataclass(frozen=True)
class PullResult:
    """What was done."""

    view: "StepView"
    target: Path
    objects: int
    size_bytes: int
    skipped: int


COLUMNS = {
    "step": lambda one: one.view.step,
    "kind": lambda one: one.view.kind.value,
    "name": lambda one: one.view.name,
    "directory": lambda one: str(one.target),
    "objects_received": lambda one: one.objects,
    "bytes_received": lambda one: one.size_bytes,
    "objects_skipped": lambda one: one.skipped,
}
"""Keys and order are public."""


def pull(
    ctx: typer.Context,
    directory: Dir,
    target: Annotated[str, typer.Argument(metavar="DEST", help="A directory here.")],
    step: Step = None,
) -> None:
    """Copy a step of a bucket to a directory, where it can be restored from as it is.

    Every byte is verified; a second run fetches only what is not there yet.
    """
    from tpuctl.cli.shell.copy_progress import warn_of_egress_charge
    from tpuctl.operations.checkpoints import pull as pulling
    from tpuctl.operations.stage.plan.names import split_url

    runtime = ctx.ensure_object(Runtime)
    if target.startswith("gs://"):
        raise UsageError("DEST must be a directory here", hint="name one, such as ./steps")
    survey = survey_directory(runtime, directory)
    if not survey.place.url.startswith("gs://"):
        raise UsageError(
            f"{directory} is here already",
            hint="pull takes gs://BUCKET/DIR or a job; copy a directory with its times: cp -a",
        )
    found = survey.choose(step)
    bucket, _ = split_url(survey.place.url)
    bulk = runtime.bulk(bucket)
    with _hints():
        wanted = pulling.plan_step_pull(found, Path(target).expanduser(), bulk, runtime.checksums)
        warn_of_egress_charge(runtime, bulk, bucket, wanted.plan.size_bytes)
        runtime.on_interrupt.append("what was received stays; run the same command again to go on")
        pulled = _fetch_step(runtime, wanted, bulk)
        pulling.complete(wanted)
    runtime.output.item(pulled, COLUMNS)
    runtime.output.note(
        f"step {found.view.handle} is in {wanted.directory}: "
        f"{size_text(found.view.size_bytes)}, every byte verified"
    )


@contextmanager
def _hints() -> Iterator[None]:
    """What to do about what went wrong, where it does not say so itself."""
    try:
        yield
    except TpuctlError as error:
        error.hint = error.hint or _HINTS.get(type(error), RERUN_HINT)
        raise


def _fetch_step(runtime: Runtime, wanted: "StepPull", bulk: "BulkBucket") -> PullResult:
    """Fetch what is missing; raises the first error when something could not be had."""
    from tpuctl.operations.checkpoints.pull import fetch

    plan = wanted.plan
    errors: list[TpuctlError] = []
    with show_copy(runtime, len(plan.to_send), plan.size_bytes) as watch:
        for event in fetch(wanted, bulk):
            match event:
                case TransferProgress(size_bytes):
                    watch.advance(size_bytes)
                case TransferNotice(text):
                    runtime.output.warn(text)
                case TransferFinished(_, error):
                    watch.finished()
                    if error is not None:
                        errors.append(error)
    _refuse_holes(runtime, wanted, errors)
    return PullResult(
        wanted.step.view,
        wanted.target,
        len(plan.to_send),
        plan.size_bytes,
        len(plan.transfers) - len(plan.to_send),
    )


def _refuse_holes(runtime: Runtime, wanted: "StepPull", errors: list[TpuctlError]) -> None:
    from tpuctl.operations.checkpoints.survey import has_gone

    if not errors:
        return
    if has_gone(wanted.step):
        raise NotFoundError(f"step {wanted.step.view.handle} was deleted while it was fetched")
    if len(errors) == len(wanted.plan.transfers):
        raise errors[0]
    for error in errors:
        runtime.output.warn(str(error))
    raise PartialFailureError(
        f"{len(errors)} of {len(wanted.plan.to_send)} objects failed: there is no step yet",
        hint=RERUN_HINT,
    )
