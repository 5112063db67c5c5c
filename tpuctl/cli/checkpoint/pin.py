"""`tpuctl checkpoint pin`: keep a step from being deleted."""

from shlex import quote
from typing import Annotated

import typer

from tpuctl.cli.checkpoint.directory_argument import Dir, Step, survey_directory
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import UsageError

COLUMNS = {
    "step": lambda row: row[0].step,
    "name": lambda row: row[0].name,
    "pinned": lambda row: row[1],
    "changed": lambda row: row[2],
}
"""Keys and order are public."""
RESULT_TEXTS = {
    (False, True): "is pinned",
    (False, False): "was pinned already",
    (True, True): "is not pinned any more",
    (True, False): "was not pinned",
}


def pin(
    ctx: typer.Context,
    directory: Dir,
    step: Step = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Unpin it: it may be deleted again.")
    ] = False,
) -> None:
    """Keep a step: neither the program that saves nor `prune` deletes it."""
    from tpuctl.operations.checkpoints import pin as pinning

    runtime = ctx.ensure_object(Runtime)
    if remove and step is None:
        raise UsageError(
            "--remove needs --step", hint=f"run: tpuctl checkpoint list {quote(directory)}"
        )
    chosen = survey_directory(runtime, directory).choose(step)
    changed = pinning.unpin_step(chosen) if remove else pinning.pin_step(chosen)
    runtime.output.item((chosen.view, not remove, changed), COLUMNS)
    runtime.output.note(f"step {chosen.view.handle} {RESULT_TEXTS[remove, changed]}")
