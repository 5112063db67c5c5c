"""`tpuctl checkpoint prune`: delete older steps, after a question that names them."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.byte_size import size_text
from tpuctl.cli.checkpoint.directory_argument import Dir, resolve_directory
from tpuctl.cli.checkpoint.list import print_steps
from tpuctl.cli.checkpoint.verify import read_steps
from tpuctl.cli.shell.options import Yes
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Columns, attributes, sizes, values_of

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.prune import Deletion, PruneChoice, PrunePlan
    from tpuctl.operations.checkpoints.survey import CheckpointLocation, FoundStep
    from tpuctl.operations.checkpoints.verify import VerifyResult

COLUMNS: Columns["PruneChoice"] = {
    **attributes(step="view.step", state="view.state.value"),
    "action": lambda choice: "delete" if choice.is_deleted else "keep",
    **attributes(size_bytes="view.size_bytes", kind="view.kind.value", name="view.name"),
    "why": lambda choice: choice.why or None,
}
"""Keys and order are public."""
SCREEN: Columns["PruneChoice"] = {
    **attributes(step="view.handle", state="view.state.value"),
    "action": COLUMNS["action"],
    **sizes(size="view.size_bytes"),
    **attributes("why"),
}
"""What people see."""


def prune(
    runtime: Runtime,
    directory: Dir,
    keep: Annotated[int, typer.Option(metavar="N", min=1, help="So many of the newest stay.")],
    foreign: Annotated[
        bool, typer.Option("--foreign", help="Also steps that other frameworks wrote.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show it, delete nothing.")] = False,
    yes: Yes = False,
) -> None:
    """Delete all but the newest steps.

    What interrupted saves left behind is deleted as well.

    The newest good step and pinned ones always stay, and what may still be under way. Before
    anything is deleted the newest one that stays is read; when it is corrupt, the one before stays.
    """
    from tpuctl.operations.checkpoints import prune as operation
    from tpuctl.operations.checkpoints.survey import survey_directory

    place = resolve_directory(runtime, directory)

    def make_plan(corrupt: Collection[str] = ()) -> "PrunePlan":
        survey = survey_directory(place)
        return operation.plan_prune(survey, keep, runtime.now(), foreign=foreign, corrupt=corrupt)

    plan = make_plan()
    if not runtime.output.is_document:
        print_steps(runtime.output, plan.choices, COLUMNS, SCREEN)
    what = _deletion_text(runtime, plan, place)
    deletions: list[Deletion] = []
    if dry_run or not what:
        runtime.output.note(f"would delete {what}" if what else f"nothing to delete in {place.url}")
    else:
        runtime.confirm(f"Delete {what}?", yes=yes)
        runtime.on_interrupt.append("deleted steps are gone; nothing else goes on")
        checked = operation.recheck_plan(plan, make_plan, partial(_verify, runtime))
        deletions = _print_deletions(runtime, operation.delete_planned(checked))
    if runtime.output.is_document:
        runtime.output.fields(_document(plan, deletions))
    operation.require_deleted(deletions)


def _verify(runtime: Runtime, steps: "Sequence[FoundStep]") -> "list[VerifyResult]":
    results = read_steps(runtime, steps)
    for result in results:
        if result.verdict == "corrupt":
            runtime.output.warn(f"step {result.view.handle} is corrupt: {result.why}")
    return results


def _document(plan: "PrunePlan", deletions: "Sequence[Deletion]") -> dict[str, Any]:
    """The plan, and what became of each step. Keys are public."""
    outcomes = {each.name: each.outcome for each in deletions}
    rows = [values_of(choice, COLUMNS) for choice in plan.choices]
    return {
        "steps": [row | {"outcome": outcomes.get(row["name"])} for row in rows],
        "leftovers": len(plan.leftovers),
        "size_bytes": plan.size_bytes,
    }


def _deletion_text(runtime: Runtime, plan: "PrunePlan", place: "CheckpointLocation") -> str:
    """`steps 10, 20 and 3 leftover objects of gs://b in context 'lab' (2.0 GiB)`, or nothing."""
    names = [each.view.handle for each in plan.steps_to_delete]
    parts = [f"step{'s' * (len(names) > 1)} {', '.join(names)}"] if names else []
    if count := len(plan.leftovers):
        parts.append(f"{count} leftover object{'s' * (count > 1)}")
    if not parts:
        return ""
    context = f" in context {runtime.context.name!r}" if place.url.startswith("gs://") else ""
    return f"{' and '.join(parts)} of {place.url}{context} ({size_text(plan.size_bytes)})"


def _print_deletions(runtime: Runtime, deletions: "Iterable[Deletion]") -> "list[Deletion]":
    """Say what became of each step as it goes, and of the leftovers at the end."""
    seen = []
    for deletion in deletions:
        seen.append(deletion)
        view = deletion.step and deletion.step.view
        if deletion.error:
            name = f"step {view.handle}" if view else deletion.name
            runtime.output.warn(f"could not delete {name}: {deletion.error}")
        elif view:
            deleted = f"deleted step {view.handle} ({size_text(view.size_bytes)})"
            left = f"left step {view.handle}: it changed"
            runtime.output.note(deleted if deletion.is_deleted else left)
    count = sum(each.step is None and each.is_deleted for each in seen)
    if count:
        runtime.output.note(f"deleted {count} leftover object{'s' * (count > 1)}")
    return seen
