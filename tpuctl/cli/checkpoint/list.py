"""`tpuctl checkpoint list`: the steps of a directory, and what each is good for."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from tpuctl.cli.checkpoint.directory_argument import Dir, survey_directory
from tpuctl.cli.shell.copy_progress import size_text
from tpuctl.cli.shell.options import Format
from tpuctl.cli.shell.output import Columns, Moment, Output
from tpuctl.cli.shell.runtime import Runtime

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.step_view import StepView

T = TypeVar("T")

COLUMNS: Mapping[str, Callable[["StepView"], Any]] = {
    "step": lambda one: one.step,
    "state": lambda one: one.state.value,
    "size_bytes": lambda one: one.size_bytes,
    "workers": lambda one: one.workers,
    "fence": lambda one: one.fence,
    "committed": lambda one: None if one.committed_s is None else Moment(one.committed_s),
    "kind": lambda one: one.kind.value,
    "name": lambda one: one.name,
    "save_s": lambda one: one.save_s,
    "blocked_s": lambda one: one.blocked_s,
    "attempt": lambda one: one.attempt,
    "job": lambda one: one.job or None,
    "program": lambda one: one.program or None,
    "pinned": lambda one: one.pinned,
    "why": lambda one: one.reason or None,
}
"""Keys and order are public."""
SCREEN: Mapping[str, Callable[["StepView"], Any]] = {
    "step": lambda one: one.handle,
    "state": lambda one: one.state.value,
    "size": lambda one: size_text(one.size_bytes),
    "saved_in": lambda one: "" if one.save_s is None else f"{one.save_s:.3g} s",
    "attempt": lambda one: "" if one.attempt is None else str(one.attempt),
    "age": COLUMNS["committed"],
    "pinned": lambda one: "pinned" if one.pinned else "",
    "kind": lambda one: "" if one.kind == "tpuctl" else one.kind.value,
    "why": lambda one: one.reason,
}
"""What people see."""


def print_steps(output: Output, rows: Sequence[T], columns: Columns[T], screen: Columns[T]) -> None:
    """Print rows: all columns for programs, for people those that have a value."""
    if output.format == Format.NAME:
        columns = {"step": screen["step"]}
    elif output.is_terminal and output.is_table:
        if not rows:
            return
        columns = {key: get for key, get in screen.items() if any(map(get, rows))}
    output.items(rows, columns)


def list_checkpoints(ctx: typer.Context, directory: Dir) -> None:
    """List the steps of a checkpoint directory, the oldest first, and what each is good for.

    \b
        COMPLETE      all of it is there, as far as the listing tells; `verify` reads the bytes
        UNSEALED      the framework that wrote it says so; what its bytes were is not known
        PARTIAL       a save, or a deletion, that did not come to its end, or has not yet
        CORRUPT       an object is missing, is another one, or was found to be damaged
        ROLLED_BACK   a later run went on from an earlier step: it does not count any more
    """
    runtime = ctx.ensure_object(Runtime)
    survey = survey_directory(runtime, directory)
    print_steps(runtime.output, survey.views, COLUMNS, SCREEN)
