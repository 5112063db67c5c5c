"""`tpuctl sweep`: what ended jobs left behind, and what everything costs."""

from collections.abc import Sequence
from shlex import quote
from typing import Annotated, Any

import typer

from tpuctl.cli.shell.options import Yes
from tpuctl.cli.shell.progress_display import show_spinner
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import Listing
from tpuctl.cli.shell.tables.values import Columns, PointInTime, Usd, attributes, usd_of, values_of
from tpuctl.errors import PartialFailureError, UsageError
from tpuctl.operations.audit import sweep as sweeping
from tpuctl.operations.audit.sweep import (
    ClassifiedHolding,
    Ownership,
    SweepReport,
    SweepResult,
    SweepScope,
)
from tpuctl.operations.cost import command_notes
from tpuctl.operations.slices.wait import Patience

COLUMNS: Columns[ClassifiedHolding] = {
    **attributes(name="holding.name", verdict="verdict.value", noun="holding.noun"),
    **attributes(zone="holding.zone", accelerator_type="holding.accelerator_type"),
    **attributes(state="holding.state"),
    "created": lambda found: PointInTime(found.holding.created_s),
    "usd_per_hour": lambda found: usd_of(found.holding.usd_per_hour),
    **attributes(holds="holding.holds", job="holding.job_id", owner="owner"),
    "nodes": lambda found: [node.name for node in found.holding.nodes],
    "node_ids": lambda found: [str(node.node_id) for node in found.holding.nodes],
    **attributes("why"),
}
TABLE_COLUMNS = {
    "name": "name", "verdict": "verdict", "zone": "zone", "type": "accelerator_type",
    "state": "state", "age": "created", "usd/h": "usd_per_hour", "holds": "holds", "why": "why",
}  # fmt: skip
NOUNS = {Ownership.ORPHAN: "orphan", Ownership.OVERDUE: "overdue slice"}
"""What people call what is deleted."""
SLICES = Listing(COLUMNS, TABLE_COLUMNS, least=("type", "zone", "why", "age"))


def sweep(
    runtime: Runtime,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="With --fix: delete these, kept ones too."),
    ] = None,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Delete what is orphan or overdue, read again before."),
    ] = False,
    all_owners: Annotated[
        bool, typer.Option("--all-owners", help="Other people's orphans are orphans too.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Show every slice and request of the project, and its owner; delete orphans with --fix.

    \b
        orphan        a job of this bucket made it, and its record says that the job has ended
        other-owner   the same, and somebody else submitted the job
        overdue       its TTL is over, or nobody has used it for as long as its label allows
        in-use        a job that has not ended runs on it
        kept          its job has ended, and its teardown keeps it (teardown): deleted when named
        leaving       it is being deleted
        by-hand       no job made it: never deleted here
        unknown       its zone, the bucket or the record cannot be read, or it is another bucket's
    """
    if names and not fix:
        raise UsageError(
            "names are for --fix", hint=f"run: tpuctl sweep --fix {' '.join(map(quote, names))}"
        )
    if runtime.has_no_local_state():
        _show(runtime, SweepReport(), [])
        return
    asker = sweeping.sweep_scope(
        runtime.store, runtime.home, runtime.context.name, all_owners=all_owners
    )
    survey = sweeping.survey_project(
        runtime.tpu, runtime.store, asker, runtime.listing_zone, runtime.now()
    )
    orphans = survey.deletable([])
    nodes = [node for each in survey.found for node in each.holding.nodes]
    if fix:
        _fix(runtime, survey, survey.deletable(names or []), asker, yes=yes)
    else:
        _show(runtime, survey, [])
        if orphans:
            more = " --all-owners" * all_owners
            runtime.output.warn(f"{_slices_text(orphans)}; delete with: tpuctl sweep --fix{more}")
    command_notes.note_nodes(runtime.tpu, runtime.store, runtime.home, runtime.now(), nodes)
    if survey.error is not None:
        raise survey.error
    if survey.unreachable:
        raise PartialFailureError(
            f"not everything was looked at: no answer from {', '.join(survey.unreachable)}",
            hint="run: tpuctl sweep",
        )


def _show(runtime: Runtime, survey: SweepReport, fixed: Sequence[SweepResult]) -> None:
    """Print what was found; on a terminal fewer columns, and the sums below."""
    output = runtime.output
    sums = {verdict: Usd(usd) for verdict, usd in survey.usd_per_hour().items()}
    if output.is_document:
        became = {id(each.found): each for each in fixed}
        whole = {
            "slices": [_row(each, became.get(id(each))) for each in survey.found],
            "usd_per_hour": sums,
            "unreachable": list(survey.unreachable),
        }
        output.fields(whole)
    else:
        if survey.found or not output.is_screen:
            output.items(survey.found, SLICES, title=f"slices of {runtime.context.name}")
        if not survey.deletable([]) and not survey.unreachable:
            output.note("nothing is left behind: no orphans")
        if sums:
            listed = ", ".join(f"{verdict} {usd}" for verdict, usd in sums.items())
            output.note(f"USD/h: {listed}")
    for zone in survey.unreachable:
        output.warn(f"{zone} did not answer: what is there is unknown")


def _row(found: ClassifiedHolding, fixed: SweepResult | None) -> dict[str, Any]:
    return values_of(found, COLUMNS) | {
        "outcome": fixed.outcome if fixed else None,
        "outcome_why": fixed.why if fixed else "",
    }


def _fix(
    runtime: Runtime,
    survey: SweepReport,
    orphans: Sequence[ClassifiedHolding],
    asker: SweepScope,
    *,
    yes: bool,
) -> None:
    """Show, ask, delete; raises PartialFailureError when some could not be deleted."""
    if not runtime.output.is_document:
        _show(runtime, survey, [])
    if orphans:
        names = ", ".join(each.holding.name for each in orphans)
        cost = _slices_text(orphans)
        question = f"Delete {names} in context {runtime.context.name!r} ({cost})?"
        runtime.confirm(question, yes=yes)
    fixed = [_delete(runtime, each, asker) for each in orphans]
    if runtime.output.is_document:
        _show(runtime, survey, fixed)
    if failed := [each for each in fixed if each.outcome == "failed"]:
        raise PartialFailureError(
            f"{len(failed)} of {len(fixed)} were not deleted: {failed[0].found.holding.name}: "
            f"{failed[0].why}",
            hint="run: tpuctl sweep",
        )


def _delete(runtime: Runtime, orphan: ClassifiedHolding, asker: SweepScope) -> SweepResult:
    name = f"{orphan.holding.noun} {orphan.holding.name!r}"
    runtime.on_interrupt[:] = [f"the deletion of {name} may go on; look with: tpuctl sweep"]
    with show_spinner(runtime, f"deleting {name}"):
        fixed = sweeping.delete_orphan(
            runtime.tpu, runtime.store, orphan, asker, Patience(sleep=runtime.sleep), runtime.now()
        )
    notes = {
        sweeping.DELETED: f"deleted {name}",
        sweeping.GONE: f"{name} was gone already",
        sweeping.LEFT: f"left {name} alone: {fixed.why}",
        sweeping.FAILED: f"could not delete {name}: {fixed.why}",
    }
    runtime.output.note(notes[fixed.outcome])
    return fixed


def _slices_text(orphans: Sequence[ClassifiedHolding]) -> str:
    """`2 orphans cost 9.71 USD/h and hold 32 chips`."""
    usd = Usd(sum(each.holding.usd_per_hour or 0.0 for each in orphans))
    held = [each.holding.holds for each in orphans if each.holding.holds]
    holding = f" and hold quota for nothing ({', '.join(held)})" if held else ""
    is_one = len(orphans) == 1
    verdicts = {each.verdict for each in orphans}
    noun = NOUNS.get(verdicts.pop(), "slice") if len(verdicts) == 1 else "slice"
    return (
        f"{len(orphans)} {noun}{'' if is_one else 's'} cost{'s' * is_one} {usd} USD/h"
        f"{holding.replace('hold ', 'holds ', 1) if is_one else holding}"
    )
