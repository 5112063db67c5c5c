"""`tpuctl checkpoint pin`: keep a step from being deleted."""

from shlex import quote
from typing import Annotated

import typer

from tpuctl.cli.checkpoint.directory_argument import Dir, Step, survey_directory
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import UsageError

RESULT_TEXTS = {
    (False, True): "is pinned",
    (False, False): "was pinned already",
    (True, True): "is not pinned any more",
    (True, False): "was not pinned",
}


def pin(
    runtime: Runtime,
    directory: Dir,
    step: Step = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Unpin it: it may be deleted again.")
    ] = False,
) -> None:
    """Keep a step, whatever its age.

    Neither the program that saves nor `prune` deletes it.
    """
    from tpuctl.operations.checkpoints.prune import pin_step, unpin_step

    if remove and step is None:
        raise UsageError(
            "--remove needs --step", hint=f"run: tpuctl checkpoint list {quote(directory)}"
        )
    chosen = survey_directory(runtime, directory).choose(step)
    changed = unpin_step(chosen) if remove else pin_step(chosen)
    view = chosen.view
    # Keys and order are public.
    runtime.output.fields(
        {"step": view.step, "name": view.name, "pinned": not remove, "changed": changed}
    )
    runtime.output.note(f"step {view.handle} {RESULT_TEXTS[remove, changed]}")
