"""`tpuctl node free`: end what holds the chips of a node."""

from collections.abc import Sequence
from typing import Annotated

import typer

from tpuctl.cli.shell.options import NodeName, Yes, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import PointInTime, attributes, printable
from tpuctl.cli.shell.worker_access import CHECK_WORKERS_HINT, reach_workers
from tpuctl.errors import PartialFailureError, TransientError
from tpuctl.models.duration import age
from tpuctl.operations.stage.plan.endpoints import ALL, WorkerEndpoint
from tpuctl.operations.workers import chip_holders
from tpuctl.operations.workers.chip_holders import ChipHolder, WorkerChipUse

RESULTS = {
    **attributes(worker="worker_id", state="state", ended="ended", killed="killed"),
    **attributes(locks_removed="removed", error="error"),
}
RERUN_HINT = f"run the same command again; or {CHECK_WORKERS_HINT}"


def free(
    runtime: Runtime,
    name: NodeName,
    worker: Annotated[
        str,
        typer.Option(
            metavar="IDS",
            help="all, 0, 1,4,6 or 1-3; default: all.",
            autocompletion=completed_by("worker"),
        ),
    ] = ALL,
    yes: Yes = False,
) -> None:
    """Show which programs hold the chips, ask, and end them.

    SIGTERM, and SIGKILL ten seconds later. A lock file of libtpu that no process holds is removed.
    """
    reached = reach_workers(runtime, WorkerEndpoint(name, worker, ""))
    seen = chip_holders.find_holders(reached)
    for use in seen:
        _print_holders(runtime, use)
    if any(use.holders for use in seen):
        runtime.confirm(_question(runtime, name, seen), yes=yes)
    elif not any(use.unseen or use.error for use in seen):
        runtime.output.note(f"nobody holds the chips of node {name!r}")
    _conclude(runtime, name, seen, chip_holders.free_chips(reached, seen))


def _print_holders(runtime: Runtime, seen: WorkerChipUse) -> None:
    """Print the holders of a worker's chips, with --quiet too: the question is about them."""
    lines = [_holder_text(runtime, holder) for holder in seen.holders]
    lines += [f"{path}: left by a program that is gone" for path in seen.stale]
    lines += [f"{path}: held by a process that our account may not see" for path in seen.unseen]
    for line in lines:
        runtime.err.write(printable(f"worker {seen.worker_id}: {line}") + "\n")
    if seen.error:
        runtime.output.warn(f"worker {seen.worker_id}: {seen.error}")
    runtime.err.flush()


def _holder_text(runtime: Runtime, holder: ChipHolder) -> str:
    since = f"since {PointInTime(holder.since_s)} ({age(runtime.now() - holder.since_s)})"
    cancel = f"better end it with: tpuctl job cancel {holder.job}"
    job = f", job {holder.job}: {cancel}" if holder.job else ""
    return f"pid {holder.pid} of {holder.user} {since}: {holder.command}{job}"


def _question(runtime: Runtime, name: str, seen: Sequence[WorkerChipUse]) -> str:
    count = sum(len(use.holders) for use in seen)
    where = ", ".join(str(use.worker_id) for use in seen if use.holders)
    what = "this process" if count == 1 else f"these {count} processes"
    context = runtime.context.name
    return f"End {what} on node {name!r}, worker {where}, in context {context!r}?"


def _conclude(
    runtime: Runtime, name: str, seen: Sequence[WorkerChipUse], done: Sequence[WorkerChipUse]
) -> None:
    runtime.output.items(done, RESULTS, title=f"workers of {name}")
    failed = [use for use in done if use.error]
    if not failed:
        return
    told = {use.worker_id for use in seen if use.error}
    for one in failed:
        if one.worker_id not in told:
            runtime.output.warn(f"worker {one.worker_id}: {one.error}")
    names = ", ".join(str(one.worker_id) for one in failed)
    if len(done) == 1 and done[0].state == "LOST":
        text = f"worker {done[0].worker_id}: {done[0].error}"
        raise TransientError(text, hint=RERUN_HINT.format(name))
    raise PartialFailureError(
        f"{len(failed)} of {len(done)} workers failed: {names}", hint=RERUN_HINT.format(name)
    )
