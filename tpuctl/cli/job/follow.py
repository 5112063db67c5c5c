"""The log of a running job on the terminal, until the job has ended."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from tpuctl.cli.job.log_output import DocumentLogPrinter, GroupedLogPrinter, LogPrinter
from tpuctl.cli.shell.daemon_threads import use_daemon_threads
from tpuctl.cli.shell.job_notices import add_cancel_note
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.job import JobRecord
from tpuctl.models.job_log import ALL_LINES, LogFilter, LogLine
from tpuctl.operations.jobs import logs, queries


def follow_until_ended(runtime: Runtime, job_id: str, wanted: LogFilter = ALL_LINES) -> None:
    """Print lines as they are written, and the job's changes on stderr, until it has ended.

    Raises the job's error when it failed.
    """
    add_cancel_note(runtime, queries.find_job(runtime, job_id))
    asyncio.run(_follow(runtime, job_id, wanted))
    queries.require_success(queries.find_job(runtime, job_id))


async def _follow(runtime: Runtime, job_id: str, wanted: LogFilter) -> None:
    use_daemon_threads()
    printer = DocumentLogPrinter if runtime.output.is_document else GroupedLogPrinter
    screen: LogPrinter = printer(runtime)
    ticking = asyncio.create_task(screen.tick())
    try:
        await _print_items(
            runtime, logs.follow_lines(runtime, job_id, wanted, screen.expect), screen
        )
    finally:
        ticking.cancel()
        screen.close()
    if ticking.done() and not ticking.cancelled():
        ticking.result()  # what could not be printed


async def _print_items(
    runtime: Runtime, items: AsyncGenerator[JobRecord | LogLine], screen: LogPrinter
) -> None:
    async with aclosing(items):
        async for item in items:
            if isinstance(item, JobRecord):
                screen.flush()
                add_cancel_note(runtime, item)  # with a slice it costs something
                runtime.output.note(f"job {item.job_id}: {item.state}: {item.status_text}")
            else:
                screen.take(item)
