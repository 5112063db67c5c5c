"""`tpuctl checkpoint prune`: older steps are deleted, named before and asked about."""

from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.cli.checkpoint.list import show
from tpuctl.cli.checkpoint.place import Dir, place
from tpuctl.cli.checkpoint.verify import read_steps
from tpuctl.cli.shell import slice_options as slices
from tpuctl.cli.shell.copy_progress import sized
from tpuctl.cli.shell.output import Columns
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import PartialFailureError, TpuctlError

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.prune import Choice, Plan
    from tpuctl.operations.checkpoints.survey import FoundStep, Place

DELETED, FAILED, LEFT = "deleted", "failed", "left"
COLUMNS: Columns["Choice"] = {
    "step": lambda one: one.view.step,
    "state": lambda one: one.view.state.value,
    "action": lambda one: "delete" if one.is_deleted else "keep",
    "size_bytes": lambda one: one.view.size_bytes,
    "kind": lambda one: one.view.kind.value,
    "name": lambda one: one.view.name,
    "why": lambda one: one.why or None,
}
"""Keys and order are public."""
SCREEN: Columns["Choice"] = {
    "step": lambda one: one.view.handle,
    "state": lambda one: one.view.state.value,
    "action": COLUMNS["action"],
    "size": lambda one: sized(one.view.size_bytes),
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
    there = place(runtime, directory)
    plan = _planned(runtime, there, keep, foreign=foreign)
    if not runtime.output.is_document:
        show(runtime.output, plan.choices, COLUMNS, SCREEN)
    what, outcomes = _what(runtime, plan, there), {}
    if dry_run or not what:
        runtime.output.note(f"would delete {what}" if what else f"nothing to delete in {there.url}")
    else:
        runtime.confirm(f"Delete {what}?", yes=yes)
        runtime.goes_on.append("what was deleted is gone; nothing else goes on")
        outcomes = _deleted(runtime, _proven(runtime, there, plan, keep, foreign=foreign))
    if runtime.output.is_document:
        whole = _document(plan, outcomes)
        runtime.output.item(whole, {key: itemgetter(key) for key in whole})
    if failed := [name for name, outcome in outcomes.items() if outcome == FAILED]:
        raise PartialFailureError(
            f"{len(failed)} of {len(outcomes)} were not deleted: {failed[0]}",
            hint="run the same command again",
        )


def _planned(
    runtime: Runtime, there: "Place", keep: int, *, foreign: bool, corrupt: Collection[str] = ()
) -> "Plan":
    from tpuctl.operations.checkpoints.prune import plan
    from tpuctl.operations.checkpoints.survey import survey

    return plan(survey(there), keep, runtime.now(), foreign=foreign, corrupt=corrupt)


def _proven(runtime: Runtime, there: "Place", shown: "Plan", keep: int, *, foreign: bool) -> "Plan":
    """Of what was shown, that which may go: the newest good step that stays was read.

    Time went by with the question, too: what is pinned by now, or the newest good one, stays.
    """
    from tpuctl.operations.checkpoints.prune import still, witnesses

    corrupt: set[str] = set()
    read: set[str] = set()
    while True:
        plan = _planned(runtime, there, keep, foreign=foreign, corrupt=corrupt)
        unread = [each for each in witnesses(plan) if each.view.name not in read]
        if not unread:
            return still(shown, plan)
        for verdict in read_steps(runtime, unread):
            read.add(verdict.view.name)
            if verdict.verdict == "corrupt":
                corrupt.add(verdict.view.name)
                runtime.output.warn(f"step {verdict.view.handle} is corrupt: {verdict.why}")


def _document(plan: "Plan", outcomes: Mapping[str, str]) -> dict[str, Any]:
    """The plan, and what became of each step. Keys are public."""
    rows = [{key: get(one) for key, get in COLUMNS.items()} for one in plan.choices]
    return {
        "steps": [row | {"outcome": outcomes.get(row["name"])} for row in rows],
        "leftovers": len(plan.leftovers),
        "size_bytes": plan.size_bytes,
    }


def _what(runtime: Runtime, plan: "Plan", there: "Place") -> str:
    """`steps 10, 20 and 3 leftover objects of gs://b in context 'lab' (2.0 GiB)`, or nothing."""
    names = [each.view.handle for each in plan.doomed]
    parts = [f"step{'s' * (len(names) > 1)} {', '.join(names)}"] if names else []
    if count := len(plan.leftovers):
        parts.append(f"{count} leftover object{'s' * (count > 1)}")
    if not parts:
        return ""
    context = f" in context {runtime.context.name!r}" if there.url.startswith("gs://") else ""
    return f"{' and '.join(parts)} of {there.url}{context} ({sized(plan.size_bytes)})"


def _deleted(runtime: Runtime, plan: "Plan") -> dict[str, str]:
    """What became of each step, by its name, and of objects that could not be deleted."""
    from tpuctl.operations.checkpoints.prune import delete_leftover

    outcomes = {each.view.name: _delete(runtime, each) for each in plan.doomed}
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
    size = sized(step.view.size_bytes)
    said = {DELETED: f"deleted step {name} ({size})", LEFT: f"left step {name}: it changed"}
    runtime.output.note(said[outcome])
    return outcome
