"""`tpuctl checkpoint prune`: older steps are deleted, named before and asked about."""

from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.cli.checkpoint.directory_argument import Dir, resolve_directory
from tpuctl.cli.checkpoint.list import print_steps
from tpuctl.cli.checkpoint.verify import read_steps
from tpuctl.cli.shell import slice_options as slices
from tpuctl.cli.shell.copy_progress import size_text
from tpuctl.cli.shell.output import Columns
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import PartialFailureError, TpuctlError

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.prune import PruneChoice, PrunePlan
    from tpuctl.operations.checkpoints.survey import CheckpointLocation, FoundStep

DELETED, FAILED, LEFT = "deleted", "failed", "left"
COLUMNS: Columns["PruneChoice"] = {
    "step": lambda one: one.view.step,
    "state": lambda one: one.view.state.value,
    "action": lambda one: "delete" if one.is_deleted else "keep",
    "size_bytes": lambda one: one.view.size_bytes,
    "kind": lambda one: one.view.kind.value,
    "name": lambda one: one.view.name,
    "why": lambda one: one.why or None,
}
"""Keys and order are public."""
SCREEN: Columns["PruneChoice"] = {
    "step": lambda one: one.view.handle,
    "state": lambda one: one.view.state.value,
    "action": COLUMNS["action"],
    "size": lambda one: size_text(one.view.size_bytes),
    "why": lambda one: one.why,
}
"""What people see."""


def prune(
    ctx: typer.Context,
    directory: Dir,
    keep: Annotated[int, typer.Option(metavar="N", min=1, help="So many of the newest stay.")],
    foreign: Annotated[
        bool, typer.Option("--foreign", help="Also steps that other frameworks wrote.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show it, delete nothing.")] = False,
    yes: slices.Yes = False,
) -> None:
    """Delete all but the newest steps, and what saves that broke off have left.

    The newest good step and pinned ones always stay, and what may still be under way. Before
    anything is deleted the newest one that stays is read; when it is corrupt, the one before stays.
    """
    runtime = ctx.ensure_object(Runtime)
    there = resolve_directory(runtime, directory)
    plan = _make_plan(runtime, there, keep, foreign=foreign)
    if not runtime.output.is_document:
        print_steps(runtime.output, plan.choices, COLUMNS, SCREEN)
    what, outcomes = _deletion_text(runtime, plan, there), {}
    if dry_run or not what:
        runtime.output.note(f"would delete {what}" if what else f"nothing to delete in {there.url}")
    else:
        runtime.confirm(f"Delete {what}?", yes=yes)
        runtime.on_interrupt.append("what was deleted is gone; nothing else goes on")
        outcomes = _delete_steps(
            runtime, _verified_plan(runtime, there, plan, keep, foreign=foreign)
        )
    if runtime.output.is_document:
        whole = _document(plan, outcomes)
        runtime.output.item(whole, {key: itemgetter(key) for key in whole})
    if failed := [name for name, outcome in outcomes.items() if outcome == FAILED]:
        raise PartialFailureError(
            f"{len(failed)} of {len(outcomes)} were not deleted: {failed[0]}",
            hint="run the same command again",
        )


def _make_plan(
    runtime: Runtime,
    there: "CheckpointLocation",
    keep: int,
    *,
    foreign: bool,
    corrupt: Collection[str] = (),
) -> "PrunePlan":
    from tpuctl.operations.checkpoints.prune import plan_prune
    from tpuctl.operations.checkpoints.survey import survey_directory

    return plan_prune(
        survey_directory(there), keep, runtime.now(), foreign=foreign, corrupt=corrupt
    )


def _verified_plan(
    runtime: Runtime, there: "CheckpointLocation", shown: "PrunePlan", keep: int, *, foreign: bool
) -> "PrunePlan":
    """Of what was shown, that which may go: the newest good step that stays was read.

    Time went by with the question, too: what is pinned by now, or the newest good one, stays.
    """
    from tpuctl.operations.checkpoints.prune import intersect_plans, steps_to_verify

    corrupt: set[str] = set()
    read: set[str] = set()
    while True:
        plan = _make_plan(runtime, there, keep, foreign=foreign, corrupt=corrupt)
        unread = [each for each in steps_to_verify(plan) if each.view.name not in read]
        if not unread:
            return intersect_plans(shown, plan)
        for verdict in read_steps(runtime, unread):
            read.add(verdict.view.name)
            if verdict.verdict == "corrupt":
                corrupt.add(verdict.view.name)
                runtime.output.warn(f"step {verdict.view.handle} is corrupt: {verdict.why}")


def _document(plan: "PrunePlan", outcomes: Mapping[str, str]) -> dict[str, Any]:
    """The plan, and what became of each step. Keys are public."""
    rows = [{key: get(one) for key, get in COLUMNS.items()} for one in plan.choices]
    return {
        "steps": [row | {"outcome": outcomes.get(row["name"])} for row in rows],
        "leftovers": len(plan.leftovers),
        "size_bytes": plan.size_bytes,
    }


def _deletion_text(runtime: Runtime, plan: "PrunePlan", there: "CheckpointLocation") -> str:
    """`steps 10, 20 and 3 leftover objects of gs://b in context 'lab' (2.0 GiB)`, or nothing."""
    names = [each.view.handle for each in plan.steps_to_delete]
    parts = [f"step{'s' * (len(names) > 1)} {', '.join(names)}"] if names else []
    if count := len(plan.leftovers):
        parts.append(f"{count} leftover object{'s' * (count > 1)}")
    if not parts:
        return ""
    context = f" in context {runtime.context.name!r}" if there.url.startswith("gs://") else ""
    return f"{' and '.join(parts)} of {there.url}{context} ({size_text(plan.size_bytes)})"


def _delete_steps(runtime: Runtime, plan: "PrunePlan") -> dict[str, str]:
    """What became of each step, by its name, and of objects that could not be deleted."""
    from tpuctl.operations.checkpoints.prune import delete_leftover

    outcomes = {each.view.name: _delete(runtime, each) for each in plan.steps_to_delete}
    count = 0
    for entry in plan.leftovers:
        try:
            count += delete_leftover(plan.store, entry)
        except TpuctlError as error:
            outcomes[entry.key] = FAILED
            runtime.output.warn(f"could not delete {entry.key}: {error}")
    if count:
        runtime.output.note(f"deleted {count} leftover object{'s' * (count > 1)}")
    return outcomes


def _delete(runtime: Runtime, step: "FoundStep") -> str:
    from tpuctl.operations.checkpoints.prune import delete

    name = step.view.handle
    try:
        outcome = DELETED if delete(step) else LEFT
    except TpuctlError as error:
        runtime.output.warn(f"could not delete step {name}: {error}")
        return FAILED
    size = size_text(step.view.size_bytes)
    said = {DELETED: f"deleted step {name} ({size})", LEFT: f"left step {name}: it changed"}
    runtime.output.note(said[outcome])
    return outcome
