"""`tpuctl job logs`: every worker's lines, merged by time, each with its number."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from tpuctl.cli.job.log_window import WINDOW_S, LineGroup, LogWindow
from tpuctl.cli.shell.daemon_threads import use_daemon_threads
from tpuctl.cli.shell.options import Format, JobName
from tpuctl.cli.shell.output import Columns, printable_with_colours
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import NotFoundError, UsageError
from tpuctl.models.duration import parse_duration
from tpuctl.models.job import JobRecord, LogLine, workers_text
from tpuctl.models.worker_ranges import format_ranges

if TYPE_CHECKING:
    from tpuctl.jobs.interfaces import Backends
    from tpuctl.jobs.logs.log_lines import LogFilter

COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)
"""Of the terminal's own palette: a worker each, again from the first after ten."""
LINE: Columns[LogLine] = {
    "attempt": lambda line: line.attempt,
    "worker": lambda line: line.worker_id,
    "time_s": lambda line: line.time_s,
    "text": lambda line: line.text,
    "missing_bytes": lambda line: line.missing_bytes,
}
TICK_S = 0.05


def logs(
    ctx: typer.Context,
    name: JobName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it ends.")] = False,
    worker: Annotated[
        str | None, typer.Option(metavar="IDS", help="Only these: 0, 1,4,6 or 1-3.")
    ] = None,
    attempt: Annotated[int | None, typer.Option(metavar="N", help="Only this attempt.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only newer lines: 10m, or 2026-01-31T12:00:00Z."),
    ] = None,
    grep: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only lines that it is found in.")
    ] = None,
) -> None:
    """Print what the job's programs printed, all workers merged by time.

    Lines that several workers print at about the same time are shown once: [0-3] text.
    """
    from tpuctl.cli.job.watch_job import follow_until_ended, warn_if_unsupervised
    from tpuctl.jobs import client
    from tpuctl.jobs.logs.log_lines import ALL_LINES, LogFilter
    from tpuctl.jobs.logs.log_stream import read
    from tpuctl.operations.remote.fanout import worker_ids

    runtime = ctx.ensure_object(Runtime)
    wanted = LogFilter(
        frozenset(worker_ids(worker)) if worker is not None else None,
        frozenset({attempt}) if attempt is not None else None,
        since_s=parse_since(since, runtime.now()) if since else 0.0,
        grep=compile_pattern(grep) if grep else None,
    )
    outside = runtime.outside
    job = client.describe(outside.store, name)
    check_exists(job, replace(wanted, attempts=None) if follow and not job.is_ended else wanted)
    warn_if_unsupervised(runtime, outside.store, [job])
    if follow:
        follow_until_ended(runtime, job.job_id, wanted)
    else:
        lines = read(outside, job.job_id, wanted)
        nothing = f"job {job.job_id}: no lines" + (" like these" if wanted != ALL_LINES else " yet")
        print_lines(runtime, note_if_empty(lines, partial(runtime.output.note, nothing)))


def check_exists(job: JobRecord, wanted: "LogFilter") -> None:
    """Raises NotFoundError for an attempt or a worker that the job does not have."""
    made = len(job.attempts)
    if later := [number for number in wanted.attempts or () if not 0 < number <= made]:
        raise NotFoundError(
            f"job {job.job_id!r} has no attempt {later[0]}", hint=f"it has made {made}"
        )
    known = max((each.worker_count for each in job.attempts), default=0)
    if known and (beyond := sorted(each for each in wanted.workers or () if each >= known)):
        raise NotFoundError(
            f"job {job.job_id!r} has no worker {beyond[0]}",
            hint=f"it has {workers_text(known)}, from 0",
        )


def note_if_empty(lines: Iterable[LogLine], say: Callable[[], None]) -> Iterator[LogLine]:
    """The lines; told when there is not one."""
    is_none = True
    for line in lines:
        is_none = False
        yield line
    if is_none:
        say()


def parse_since(text: str, now_s: float) -> float:
    """The time so long ago, or at that date, as seconds since 1970. Raises UsageError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return now_s - parse_duration(text)
    if found.tzinfo is None:
        raise UsageError(f"{text!r} does not say in which time zone", hint=f"write {text}Z for UTC")
    return found.timestamp()


def compile_pattern(text: str) -> re.Pattern[str]:
    """A regular expression; raises UsageError."""
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"{text!r} is no regular expression: {error}") from error


def print_lines(runtime: Runtime, lines: Iterable[LogLine]) -> None:
    """Lines that were written already; their own times say which belong together."""
    if runtime.shared.output in (Format.JSON, Format.YAML):
        runtime.output.stream(lines, LINE)
        return
    window, show = LogWindow(), group_printer(runtime)
    attempt, due_s = 0, 0.0
    for line in lines:
        if line.attempt != attempt:
            show(window.rest())
            attempt, due_s = line.attempt, 0.0
        window.add(line, line.time_s)
        if line.time_s >= due_s:  # not for every line: the whole window is looked at
            show(window.ready(line.time_s))
            due_s = line.time_s + WINDOW_S
    show(window.rest())


def line_printer(runtime: Runtime) -> Callable[[LogLine], None]:
    """Prints a line at once, without waiting for others like it."""
    show = group_printer(runtime)
    return lambda line: show([LineGroup(line, [line.worker_id])])


def group_printer(runtime: Runtime) -> Callable[[list[LineGroup]], None]:
    """Prints groups of lines behind their workers' numbers, coloured on a terminal.

    Where another attempt than the first begins is told on stderr.
    """
    is_coloured = runtime.output.is_terminal and not runtime.environ.get("NO_COLOR")

    text = printable_with_colours if runtime.output.is_terminal else str

    def painted(group: LineGroup) -> str:
        label = f"[{format_ranges(group.workers)}]"
        if is_coloured:
            label = f"\x1b[{COLOURS[group.line.worker_id % len(COLOURS)]}m{label}\x1b[0m"
        return f"{label} {text(group.line.text)}\n"

    shown = 0

    def show(groups: list[LineGroup]) -> None:
        nonlocal shown
        for attempt, part in groupby(groups, key=lambda group: group.line.attempt):
            if attempt != shown and attempt > 1:
                runtime.output.note(f"attempt {attempt}:")
            shown = attempt
            runtime.out.write("".join(map(painted, part)))
            runtime.out.flush()

    return show


def follow_log(
    runtime: Runtime, outside: "Backends", job_id: str, wanted: "LogFilter | None" = None
) -> None:
    """Lines as they are written, and the job's story on stderr, until it has ended."""
    asyncio.run(_follow_log(runtime, outside, job_id, wanted))


async def _follow_log(
    runtime: Runtime, outside: "Backends", job_id: str, wanted: "LogFilter | None"
) -> None:
    from tpuctl.jobs.clocks import SYSTEM_CLOCKS
    from tpuctl.jobs.logs import log_stream as following
    from tpuctl.jobs.logs.log_lines import ALL_LINES

    use_daemon_threads()
    is_document = runtime.shared.output in (Format.JSON, Format.YAML)
    screen: LogPrinter = DocumentLogPrinter(runtime) if is_document else GroupedLogPrinter(runtime)
    items = following.follow(
        outside, job_id, clocks=SYSTEM_CLOCKS, wanted=wanted or ALL_LINES, on_workers=screen.expect
    )
    ticking = asyncio.create_task(screen.tick())
    try:
        await _print_items(runtime, items, screen)
    finally:
        ticking.cancel()
        screen.close()
    if ticking.done() and not ticking.cancelled():
        ticking.result()  # what could not be printed


async def _print_items(
    runtime: Runtime,
    items: AsyncGenerator[JobRecord | LogLine],
    screen: "LogPrinter",
) -> None:
    async with aclosing(items):
        async for item in items:
            if isinstance(item, JobRecord):
                screen.flush()
                runtime.output.note(f"job {item.job_id}: {item.state}: {item.status_text}")
            else:
                screen.take(item)


class LogPrinter(Protocol):
    """Where lines go as they come."""

    def expect(self, workers: int) -> None:
        """So many workers' lines are to come."""

    def take(self, line: LogLine) -> None:
        """One more line."""

    def flush(self) -> None:
        """Print what is due."""

    def close(self) -> None:
        """Print everything."""

    async def tick(self) -> None:
        """Print now and then, for as long as lines come."""
        while True:
            await asyncio.sleep(TICK_S)
            self.flush()


class DocumentLogPrinter(LogPrinter):
    """One JSON object a line, as they come; in YAML an item of a list each."""

    def __init__(self, runtime: Runtime) -> None:
        self._out = runtime.out
        self._before = "- " if runtime.shared.output == Format.YAML else ""
        self._waiting: list[LogLine] = []

    def expect(self, workers: int) -> None:
        """Nothing waits for its like here."""

    def take(self, line: LogLine) -> None:
        """One more line."""
        self._waiting.append(line)

    def flush(self) -> None:
        """Print what has come."""
        if self._waiting:
            rows = ({key: get(line) for key, get in LINE.items()} for line in self._waiting)
            self._out.write("".join(f"{self._before}{json.dumps(row)}\n" for row in rows))
            self._out.flush()
            self._waiting = []

    def close(self) -> None:
        """Print everything."""
        self.flush()


class GroupedLogPrinter(LogPrinter):
    """Text for people; a line waits for `WINDOW_S` for others like it."""

    def __init__(self, runtime: Runtime) -> None:
        self._show = group_printer(runtime)
        self._window = LogWindow(WINDOW_S)
        self._now = asyncio.get_running_loop().time

    def expect(self, workers: int) -> None:
        """What all of them have printed is shown at once."""
        self._window.workers = workers

    def take(self, line: LogLine) -> None:
        """One more line."""
        self._window.add(line, self._now())

    def flush(self) -> None:
        """Print what has waited for long enough."""
        self._show(self._window.ready(self._now()))

    def close(self) -> None:
        """Print everything."""
        self._show(self._window.rest())
