"""`tpuctl top`: the workers of running jobs, as they work."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from tpuctl.cli.shell.daemon_threads import use_daemon_threads
from tpuctl.cli.shell.options import Format, Verb
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import TpuctlError
from tpuctl.jobs import client
from tpuctl.jobs.clocks import SYSTEM_CLOCKS
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.logs.log_stream import follow
from tpuctl.models.job import JobRecord, Phase, WorkerReport

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

REFRESH_S = 0.5
PATIENCE_S = 5.0
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker of one job."""

    job_id: str
    attempt: int
    report: WorkerReport


def metric(row: WorkerRow, name: str) -> Any:
    """A figure of the last progress line."""
    return row.report.metrics.get(name)


COLUMNS = {
    "job": lambda row: row.job_id,
    "worker": lambda row: row.report.worker_id,
    "state": lambda row: row.report.phase.upper(),
    "step": lambda row: row.report.step,
    "examples_per_s": lambda row: metric(row, "examples_per_s"),
    "mxu_busy": lambda row: metric(row, "mxu_busy"),
    "memory_mib": lambda row: row.report.rss_bytes and round(row.report.rss_bytes / MIB, 1),
}


@app.command("top", cls=Verb)
def top(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Only this job.")] = None,
) -> None:
    """Watch the workers of running jobs; on a pipe, print them once."""
    runtime = ctx.ensure_object(Runtime)
    if name is None and runtime.has_no_local_state():
        runtime.output.items([], COLUMNS)
        return
    clients = runtime.outside
    jobs = [client.describe(clients.store, name)] if name else client.list_jobs(clients.store)
    asyncio.run(_watch(runtime, clients, [job for job in jobs if not job.is_ended]))


async def _watch(runtime: Runtime, clients: Backends, jobs: list[JobRecord]) -> None:
    use_daemon_threads()
    rows: dict[tuple[str, int], WorkerRow] = {}
    tasks = [asyncio.create_task(_collect(clients, job, rows)) for job in jobs]
    try:
        if runtime.output.is_terminal and runtime.shared.output == Format.TABLE:
            await _live(runtime, tasks, rows)
        else:
            await _until_all_reported(jobs, rows)
            runtime.output.items(_sorted(rows), COLUMNS)
    finally:
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, TpuctlError):
                runtime.output.warn(str(found))


async def _collect(
    clients: Backends, job: JobRecord, rows: dict[tuple[str, int], WorkerRow]
) -> None:
    def keep(attempt: int, report: WorkerReport) -> None:
        rows[job.job_id, report.worker_id] = WorkerRow(job.job_id, attempt, report)

    async for _ in follow(clients, job.job_id, clocks=SYSTEM_CLOCKS, on_report=keep):
        pass


async def _live(
    runtime: Runtime, tasks: list[asyncio.Task[None]], rows: dict[tuple[str, int], WorkerRow]
) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(file=runtime.out), screen=False, auto_refresh=False) as live:
        while any(not task.done() for task in tasks):
            live.update(runtime.output.table(list(_sorted(rows)), COLUMNS), refresh=True)
            await asyncio.sleep(REFRESH_S)


async def _until_all_reported(
    jobs: list[JobRecord], rows: dict[tuple[str, int], WorkerRow]
) -> None:
    """Give every worker of every running attempt a moment to say where it is."""
    expected = sum(len(job.attempt.workers) for job in jobs if job.attempt)
    deadline = SYSTEM_CLOCKS.monotonic() + PATIENCE_S
    while SYSTEM_CLOCKS.monotonic() < deadline:
        heard = [row for row in rows.values() if row.report.phase != Phase.CONNECTING]
        if len(heard) >= expected:
            return
        await asyncio.sleep(REFRESH_S / 5)


def _sorted(rows: dict[tuple[str, int], WorkerRow]) -> Iterator[WorkerRow]:
    return (rows[key] for key in sorted(rows))
