"""`tpuctl checkpoint list`: the steps of a directory, and what each is good for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from tpuctl.cli.checkpoint.directory_argument import Dir, survey_directory
from tpuctl.cli.shell.options import Format
from tpuctl.cli.shell.output import Output
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import Listing, declare_keys
from tpuctl.cli.shell.tables.values import Columns, attributes, moments, sizes

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.step_view import StepView

T = TypeVar("T")

COLUMNS: Columns["StepView"] = {
    **attributes(step="step", state="state.value", size_bytes="size_bytes"),
    **attributes("workers", "fence"),
    **moments("committed"),
    **attributes(kind="kind.value", name="name", save_s="save_s", blocked_s="blocked_s"),
    **attributes("attempt"),
    "job": lambda view: view.job or None,
    "program": lambda view: view.program or None,
    **attributes("pinned"),
    "why": lambda view: view.reason or None,
}
"""Keys and order are public."""
SCREEN: Columns["StepView"] = {
    **attributes(step="handle", state="state.value"),
    **sizes(size="size_bytes"),
    "saved_in": lambda view: "" if view.save_s is None else f"{view.save_s:.3g} s",
    "attempt": lambda view: "" if view.attempt is None else str(view.attempt),
    "age": COLUMNS["committed"],
    "pinned": lambda view: "pinned" if view.pinned else "",
    "kind": lambda view: "" if view.kind == "tpuctl" else view.kind.value,
    **attributes(why="reason"),
}
"""What people see."""
LEAST = ("pinned", "attempt", "saved_in", "kind", "age")


def print_steps(output: Output, rows: Sequence[T], columns: Columns[T], screen: Columns[T]) -> None:
    """Print rows: every key for programs; on a terminal the columns that have a value."""
    if output.format == Format.NAME:
        columns = {"step": screen["step"]}
    elif output.is_screen:
        if not rows:
            return
        screen = {key: get for key, get in screen.items() if any(map(get, rows))}
    output.items(rows, Listing(columns, screen, least=LEAST))


@declare_keys(lambda: COLUMNS)
def list_checkpoints(runtime: Runtime, directory: Dir) -> None:
    """List the steps of a directory, and their state.

    The oldest step comes first.

    \b
        COMPLETE      all of it is there, as far as the listing shows; `verify` reads the bytes
        UNVERIFIED    it was copied here: `verify`, or a restore, reads its bytes
        UNSEALED      the framework that wrote it says so; what its bytes were is not known
        PARTIAL       a save, or a deletion, that did not come to its end, or has not yet
        CORRUPT       an object is missing, has other bytes, or was found to be damaged
        ROLLED_BACK   a later run went on from an earlier step: it does not count any more
    """
    survey = survey_directory(runtime, directory)
    steps = ((str(view.handle), view.state.value, 0) for view in survey.views)
    if survey.place.url.startswith("gs://"):  # the context's, or a job of it
        runtime.remember("step", steps, directory)
    print_steps(runtime.output, survey.views, COLUMNS, SCREEN)
