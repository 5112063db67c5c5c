"""`tpuctl checkpoint pull`: copy a step to a directory, verified and whole."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.byte_size import size_text
from tpuctl.cli.checkpoint.directory_argument import Dir, Step, survey_directory
from tpuctl.cli.shell.copy_progress import show_copy, warn_of_egress_charge
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Columns, attributes, sizes
from tpuctl.errors import UsageError

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.pull import StepPull
    from tpuctl.operations.checkpoints.survey import DirectorySurvey, FoundStep

COLUMNS: Columns["StepPull"] = {
    **attributes(step="step.view.step", kind="step.view.kind.value", name="step.view.name"),
    "directory": lambda pull: str(pull.target),
    "objects_received": lambda pull: len(pull.plan.to_send),
    **sizes(bytes_received="plan.size_bytes"),
    "objects_skipped": lambda pull: len(pull.plan.transfers) - len(pull.plan.to_send),
}
"""Keys and order are public."""


def pull(
    runtime: Runtime,
    directory: Dir,
    target: Annotated[str, typer.Argument(metavar="DEST", help="A directory here.")],
    step: Step = None,
) -> None:
    """Copy a step to this machine.

    Programs can restore it from there as it is.

    Every byte is verified; a second run fetches only what is not there yet.
    """
    pulled = fetch_step(runtime, survey_directory(runtime, directory), directory, target, step)
    runtime.output.item(pulled, COLUMNS)
    tell_copied(runtime, pulled.step, str(pulled.directory))


def fetch_step(
    runtime: Runtime, survey: "DirectorySurvey", directory: str, target: str, step: str | None
) -> "StepPull":
    """Copy a step of a bucket to a directory; `directory` is what the user typed for the bucket."""
    from tpuctl.operations.checkpoints import pull as operation
    from tpuctl.operations.checkpoints import step_copies
    from tpuctl.operations.stage.transfer.pool import finished_transfers
    from tpuctl.operations.stage.transfer.pull_objects import pull as fetch

    if target.startswith("gs://"):
        raise UsageError("DEST must be a directory here", hint="name one, such as ./steps")
    bucket = operation.source_bucket(survey, directory)
    chosen = survey.choose(step)
    bulk = runtime.bulk(bucket)
    with step_copies.explain_failures():
        wanted = operation.plan_step_pull(
            chosen, Path(target).expanduser(), bulk, runtime.checksums
        )
        warn_of_egress_charge(runtime, bucket, wanted.plan.size_bytes)
        runtime.on_interrupt.append(
            "files already received stay; run the same command again to go on"
        )
        with show_copy(runtime, len(wanted.plan.to_send), wanted.plan.size_bytes) as watch:
            done = finished_transfers(fetch(wanted.plan, bulk), watch, runtime.output.warn)
            errors = [event.error for event in done if event.error is not None]
        step_copies.refuse_missing(wanted, errors, runtime.output.warn)
        operation.complete(wanted)
    return wanted


def tell_copied(runtime: Runtime, step: "FoundStep", target: str) -> None:
    """Say that a step is at its target; a copy is as good as what it was made of."""
    from shlex import quote

    size, verdict = size_text(step.view.size_bytes), "every byte verified"
    if step.view.state == "UNVERIFIED":
        verdict = f"UNVERIFIED as its source; run: tpuctl checkpoint verify {quote(target)}"
    runtime.output.note(f"step {step.view.handle} is in {target}: {size}, {verdict}")
