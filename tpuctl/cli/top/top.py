"""`tpuctl top`: jobs and nodes as they work."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from tpuctl.cli.shell.daemon_threads import use_daemon_threads
from tpuctl.cli.shell.options import completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.top.worker_row import DOCUMENT, TABLE, WorkerRow, worker_rows
from tpuctl.metrics.findings.observation import Finding
from tpuctl.operations.metrics.slice_watch import SliceWatch, watch


def top(
    runtime: Runtime,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB|NODE]",
            help="Only this job or node.",
            autocompletion=completed_by("job or node"),
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
) -> None:
    """Watch running jobs, or without one every READY node: chips, hosts, steps, logs, money.

    On a pipe, on a dumb terminal and with -o json it prints every worker once.
    """
    if name is None and runtime.has_no_local_state():
        runtime.output.items([], DOCUMENT if runtime.output.is_document else TABLE)
        return
    watching = watch(runtime, runtime.access, name)
    if not watching.slices:
        runtime.output.note(
            "no job runs and no node is READY: tpuctl job list, or: tpuctl node list"
        )
    if once or not _has_screen(runtime) or not watching.slices:
        asyncio.run(_print_once(runtime, watching))
        return
    from tpuctl.cli.shell import job_notices
    from tpuctl.cli.top.screen import TopScreen

    if TopScreen(runtime, watching).run():
        for each in watching.slices:
            if each.job is not None:
                job_notices.add_cancel_note(runtime, each.job)
        raise KeyboardInterrupt


def _has_screen(runtime: Runtime) -> bool:
    """Whether a person looks at a terminal that can move its cursor."""
    return runtime.output.is_screen and runtime.environ.get("TERM") != "dumb"


async def _print_once(runtime: Runtime, watching: SliceWatch) -> None:
    use_daemon_threads()
    watching.start()
    await watching.wait_for_all()
    found = {each.name: each.findings(runtime.now()) for each in watching.slices}
    rows = _rows(runtime, watching, found)
    for error in await watching.stop():
        runtime.output.warn(str(error))
    for each in watching.slices:
        if each.trouble:
            runtime.output.warn(f"{each.name}: {each.trouble}")
    output = runtime.output
    output.items(rows, TABLE if output.is_table else DOCUMENT)
    if output.is_table:
        for name, one in ((name, one) for name, wrong in found.items() for one in wrong):
            output.warn(f"{name}: {one.sentence} ({one.evidence})")


def _rows(
    runtime: Runtime, watching: SliceWatch, found: Mapping[str, Sequence[Finding]]
) -> list[WorkerRow]:
    now_s, monotonic_s = runtime.now(), time.monotonic()
    return [
        row
        for each in watching.slices
        for row in worker_rows(each, now_s, monotonic_s, found[each.name])
    ]
