"""Log lines on stdout: grouped and coloured for people, one object a line for programs."""

import asyncio
import json
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Protocol

from tpuctl.cli.job.log_window import WINDOW_S, LineGroup, LogWindow
from tpuctl.cli.shell.byte_streams import printable_with_colours
from tpuctl.cli.shell.options import Format
from tpuctl.cli.shell.output import worker_label
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Columns, attributes, values_of
from tpuctl.models.job_log import LogLine
from tpuctl.models.worker_numbers import format_ranges

LINE: Columns[LogLine] = {
    **attributes(attempt="attempt", worker="worker_id", time_s="time_s"),
    **attributes("text", "missing_bytes"),
}
TICK_S = 0.05


def print_lines(runtime: Runtime, lines: Iterable[LogLine]) -> None:
    """Print finished logs; lines whose own times are close are grouped."""
    if runtime.output.is_document:
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
    """A function that prints each line at once, without waiting for equal ones."""
    show = group_printer(runtime)
    return lambda line: show([LineGroup(line, [line.worker_id])])


def group_printer(runtime: Runtime) -> Callable[[list[LineGroup]], None]:
    """A function that prints groups of lines after their workers' numbers, coloured on a terminal.

    Where another attempt than the first begins is told on stderr.
    """
    is_coloured = runtime.output.is_terminal and not runtime.environ.get("NO_COLOR")

    text = printable_with_colours if runtime.output.is_terminal else str

    def painted(group: LineGroup) -> str:
        workers, first = format_ranges(group.workers), group.line.worker_id
        label = worker_label(workers, first, is_coloured=is_coloured)
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


class LogPrinter(Protocol):
    """Prints the lines of a job that is followed."""

    def expect(self, workers: int) -> None:
        """Take note of how many workers print."""

    def take(self, line: LogLine) -> None:
        """Accept the next line."""

    def flush(self) -> None:
        """Print the lines that have waited long enough."""

    def close(self) -> None:
        """Print all lines that are left."""
        self.flush()

    async def tick(self) -> None:
        """Flush every `TICK_S`, until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            self.flush()


class DocumentLogPrinter(LogPrinter):
    """Prints each line as a JSON object, or as an item of a YAML list."""

    def __init__(self, runtime: Runtime) -> None:
        self._out = runtime.out
        self._before = "- " if runtime.shared.output == Format.YAML else ""
        self._waiting: list[LogLine] = []

    def expect(self, workers: int) -> None:
        """Do nothing: lines are not grouped here."""

    def take(self, line: LogLine) -> None:
        """Accept the next line."""
        self._waiting.append(line)

    def flush(self) -> None:
        """Print the lines that have come."""
        if self._waiting:
            rows = (values_of(line, LINE) for line in self._waiting)
            self._out.write("".join(f"{self._before}{json.dumps(row)}\n" for row in rows))
            self._out.flush()
            self._waiting = []


class GroupedLogPrinter(LogPrinter):
    """Prints text for people; a line waits for `WINDOW_S` for equal lines of other workers."""

    def __init__(self, runtime: Runtime) -> None:
        self._show = group_printer(runtime)
        self._window = LogWindow(WINDOW_S)
        self._now = asyncio.get_running_loop().time

    def expect(self, workers: int) -> None:
        """Take note of how many workers print: a line that all have printed waits no longer."""
        self._window.workers = workers

    def take(self, line: LogLine) -> None:
        """Accept the next line."""
        self._window.add(line, self._now())

    def flush(self) -> None:
        """Print the groups that have waited long enough."""
        self._show(self._window.ready(self._now()))

    def close(self) -> None:
        """Print all lines that are left."""
        self._show(self._window.rest())
