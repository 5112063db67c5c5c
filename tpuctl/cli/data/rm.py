"""`tpuctl data rm`: deletes objects by generation, after a question that says how many."""

from collections.abc import Sequence
from itertools import chain
from typing import Annotated

import typer

from tpuctl.byte_size import count_text, size_text
from tpuctl.cli.data.plan_runner import carry_out_removal
from tpuctl.cli.shell.options import Yes, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Columns, Size
from tpuctl.errors import TpuctlError
from tpuctl.models.transfer import PlannedDeletion, TransferPlan

_Row = tuple[TransferPlan, PlannedDeletion]
COLUMNS: Columns[_Row] = {
    "url": lambda row: f"{row[0].root}/{row[1].key}",
    "size_bytes": lambda row: Size(row[1].size_bytes),
    "generation": lambda row: str(row[1].generation),
}


def remove(
    runtime: Runtime,
    urls: Annotated[
        list[str],
        typer.Argument(
            metavar="gs://BUCKET/NAME...", help="What goes.", autocompletion=completed_by("url")
        ),
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Also all below NAME/.")
    ] = False,
    whole_bucket: Annotated[
        bool,
        typer.Option("--whole-bucket", help="Allow gs://BUCKET; objects of tpuctl itself stay."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be deleted, delete nothing.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete an object, or all below a prefix.

    A prefix needs --recursive.

    Each object is deleted only in the version that was listed. Objects that jobs need are named.
    """
    from tpuctl.operations.stage.plan.removal_plan import plan_removal
    from tpuctl.operations.stage.transfer import push_files

    plans = plan_removal(runtime.bulk, urls, is_recursive=recursive, whole_bucket=whole_bucket)
    rows = [(plan, each) for plan in plans.values() for each in plan.deletions]
    _ask(runtime, rows, is_asked=not (dry_run or yes))
    if dry_run:
        runtime.output.items(rows, COLUMNS)
        return
    events = (
        push_files.delete_objects(plan, runtime.bulk(bucket)) for bucket, plan in plans.items()
    )
    deletions = [deletion for _, deletion in rows]
    carry_out_removal(runtime, deletions, chain.from_iterable(events))


def _ask(runtime: Runtime, rows: Sequence[_Row], *, is_asked: bool) -> None:
    """Ask before the deletion; where nobody is asked, only warn of what jobs still need."""
    uses = _uses(runtime, [COLUMNS["url"](row) for row in rows])
    if is_asked:
        size_bytes = sum(deletion.size_bytes for _, deletion in rows)
        objects = count_text(len(rows), "object")
        among = f", among them {uses}" if uses else ""
        runtime.confirm(f"Delete {objects} ({size_text(size_bytes)}){among}?", yes=False)
    elif uses:
        runtime.output.warn(f"among them are {uses}")


def _uses(runtime: Runtime, urls: Sequence[str]) -> str:
    """What jobs that have not ended have among the objects, in words."""
    from tpuctl.operations.jobs.used_objects import find_uses

    try:
        return ", ".join(use.text for use in find_uses(runtime.store(), urls))
    except TpuctlError as error:
        runtime.output.warn(f"it is not known whether a job needs them: {error}")
        return ""
