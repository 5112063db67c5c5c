"""The log of a job on the screen: every worker's lines, each with its number."""

import asyncio
from collections.abc import Callable, Iterable

from tpuctl.cli.options import Format
from tpuctl.cli.runtime import Runtime
from tpuctl.jobs.follow import ALL, Wanted
from tpuctl.jobs.follow import follow as follow_job
from tpuctl.jobs.ports import Outside
from tpuctl.jobs.supervisor import SYSTEM
from tpuctl.models.job import JobRecord, LogLine

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green")
LINE = {
    "attempt": lambda line: line.attempt,
    "worker": lambda line: line.worker_id,
    "time_s": lambda line: line.time_s,
    "text": lambda line: line.text,
}


def print_lines(runtime: Runtime, lines: Iterable[LogLine]) -> None:
    """Lines that were written already."""
    if runtime.shared.output in (Format.JSON, Format.YAML):
        runtime.output.items(lines, LINE)
        return
    show = printer(runtime)
    for line in lines:
        show(line)


def printer(runtime: Runtime) -> Callable[[LogLine], None]:
    """Prints a line with its worker's number, coloured on a terminal."""
    if not runtime.output.is_terminal or runtime.environ.get("NO_COLOR"):
        return lambda line: runtime.output.line(f"[{line.worker_id}] {line.text}")
    from rich.console import Console
    from rich.text import Text

    console = Console(file=runtime.out, highlight=False, soft_wrap=True)

    def show(line: LogLine) -> None:
        colour = COLOURS[line.worker_id % len(COLOURS)]
        console.print(Text.assemble((f"[{line.worker_id}] ", colour), line.text))

    return show


def follow(runtime: Runtime, outside: Outside, job_id: str, wanted: Wanted = ALL) -> None:
    """Lines as they are written, and the job's story on stderr, until it has ended."""
    asyncio.run(_follow(runtime, outside, job_id, wanted))


async def _follow(runtime: Runtime, outside: Outside, job_id: str, wanted: Wanted) -> None:
    show = printer(runtime)
    async for item in follow_job(outside, job_id, clocks=SYSTEM, wanted=wanted):
        if isinstance(item, JobRecord):
            runtime.output.note(f"job {item.job_id}: {item.state}: {item.why}")
        else:
            show(item)
            runtime.out.flush()
