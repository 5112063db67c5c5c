"""`tpuctl top`: the workers of running jobs, as they work."""

import asyncio
from typing import Annotated

import typer

from tpuctl.cli.shell.daemon_threads import use_daemon_threads
from tpuctl.cli.shell.output import Columns, attributes
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.jobs.top import WorkerBoard, WorkerRow, worker_board

REFRESH_S = 0.5
MIB = 1024 * 1024


COLUMNS: Columns[WorkerRow] = {
    **attributes(job="job_id", worker="report.worker_id"),
    "state": lambda row: row.report.phase.upper(),
    **attributes(step="report.step"),
    "examples_per_s": lambda row: row.report.metrics.get("examples_per_s"),
    "mxu_busy": lambda row: row.report.metrics.get("mxu_busy"),
    "memory_mib": lambda row: row.report.rss_bytes and round(row.report.rss_bytes / MIB, 1),
}


def top(
    runtime: Runtime,
    name: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Only this job.")] = None,
) -> None:
    """Watch the workers of running jobs; on a pipe, print them once."""
    if name is None and runtime.has_no_local_state():
        runtime.output.items([], COLUMNS)
        return
    asyncio.run(_watch(runtime, worker_board(runtime, name)))


async def _watch(runtime: Runtime, board: WorkerBoard) -> None:
    use_daemon_threads()
    board.start()
    try:
        if runtime.output.is_screen:
            await _live(runtime, board)
        else:
            await board.wait_for_reports()
            runtime.output.items(board.rows, COLUMNS)
    finally:
        for error in await board.stop():
            runtime.output.warn(str(error))


async def _live(runtime: Runtime, board: WorkerBoard) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(file=runtime.out), screen=False, auto_refresh=False) as live:
        while board.is_running:
            live.update(runtime.output.table(list(board.rows), COLUMNS), refresh=True)
            await asyncio.sleep(REFRESH_S)
