"""The full screen of `tpuctl top`, made with Textual."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from rich.markup import escape
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.coordinate import Coordinate
from textual.css.query import NoMatches
from textual.widgets import DataTable, Footer, Input, RichLog, Static

from tpuctl import catalog
from tpuctl.agent import ship
from tpuctl.byte_size import count_text
from tpuctl.cli.shell.daemon_threads import use_daemon_threads
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import PointInTime, Usd, printable
from tpuctl.cli.top import mesh
from tpuctl.cli.top.dialogs import Confirmation, Help, PlainText, WorkerDetails
from tpuctl.cli.top.worker_row import (
    MESH_METRICS,
    SCREEN,
    WorkerRow,
    chip_shares,
    worker_rows,
)
from tpuctl.errors import TpuctlError
from tpuctl.models.duration import age
from tpuctl.operations.metrics.slice_watch import SliceWatch
from tpuctl.operations.metrics.watched_slice import WatchedSlice

REFRESH_S = 1.0
FINDINGS_S = 5.0
MOST_FINDINGS = 3
SLICE_COLUMNS = ("NAME", "STATE", "TYPE", "STEP", "STEPS/S", "LEFT", "USD/H", "USD")
SORTS = ("worker", "chips", "step")
SPARK_CELLS = 60
SMALLEST = (60, 15)
"""Columns and lines, below which nothing can be read."""


class TopScreen(App[bool]):
    """Slices, the workers of the chosen one, its mesh, sparklines and the merged log.

    Its result is True when Ctrl-C has ended it.
    """

    CSS_PATH = "top.tcss"
    TITLE = "tpuctl top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[Any]] = [
        Binding("q", "quit", "quit"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("s", "sort", "sort"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("enter", "details", "worker", priority=False),
        Binding("m", "mesh", "mesh"),
        Binding("l", "log", "log"),
        Binding("e", "shell", "shell"),
        Binding("d", "threads", "dump"),
        Binding("x", "cancel", "cancel"),
        Binding("escape", "all", show=False),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    def __init__(self, runtime: Runtime, watching: SliceWatch) -> None:
        super().__init__()
        self.runtime = runtime
        self.watching = watching
        self.sorting = 0
        self.mesh_metric = 0
        self.wanted = ""
        self.lines_shown = 0
        self.sizes: dict[str, tuple[int, int]] = {}
        """Lines and columns of each picture."""

    def compose(self) -> ComposeResult:
        """The widgets from top to bottom."""
        yield Static(id="head")
        yield DataTable(id="slices", cursor_type="row")
        yield DataTable(id="workers", cursor_type="row")
        with Horizontal(id="pictures"):
            yield Static(id="mesh")
            yield Static(id="sparks")
        yield Static(id="findings")
        yield RichLog(id="log", max_lines=500, wrap=False, highlight=False, markup=False)
        yield Input(id="filter", placeholder="worker number, state or node")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to watch and to refresh."""
        use_daemon_threads()
        self.query_one("#slices", DataTable).add_columns(*SLICE_COLUMNS)
        self.query_one("#workers", DataTable).add_columns(*map(str.upper, SCREEN))
        self.query_one("#filter").display = False
        self.query_one("#workers").focus()
        self.watching.start()
        self.refresh_all()
        self.set_interval(REFRESH_S, partial(self.show_in_time, self.refresh_all))
        self.show_findings()
        self.set_interval(FINDINGS_S, partial(self.show_in_time, self.show_findings))

    async def on_unmount(self) -> None:
        """Let go of the workers."""
        await self.watching.stop()

    # ------------------------------------------------------------------ what is shown

    @property
    def chosen(self) -> WatchedSlice | None:
        """The job or node under the cursor of the upper table."""
        slices = self.watching.slices
        row = self.query_one("#slices", DataTable).cursor_row
        return slices[min(row, len(slices) - 1)] if slices else None

    def show_in_time(self, show: Callable[[], None]) -> None:
        """Call `show`; at the end the timers that do so outlive the widgets by a moment."""
        with suppress(NoMatches):
            show()

    def refresh_all(self) -> None:
        """Show everything as it is now."""
        if self.screen is not self.screen_stack[0]:
            return  # a dialog is in front of it
        self.query_one("#head", Static).update(self.head_text(), layout=False)
        put_rows(self.query_one("#slices", DataTable), [self.slice_cells(s) for s in self.slices()])
        rows = self.rows()
        put_rows(self.query_one("#workers", DataTable), [worker_cells(row) for row in rows])
        self.show_pictures(rows)
        self.show_lines()

    def slices(self) -> Sequence[WatchedSlice]:
        """Every job and node that is watched."""
        return self.watching.slices

    def head_text(self) -> str:
        """The first line: where, how many, what it costs."""
        width, height = self.size
        if width < SMALLEST[0] or height < SMALLEST[1]:
            return f"the terminal is {width}x{height}: make it 80x24 to see everything"
        usd = self.watching.usd_per_hour
        price = "no known price" if usd is None else f"{Usd(usd)} USD/h"
        workers = sum(len(each.workers) for each in self.slices())
        where = escape(f"context {self.runtime.context.name}")
        now = str(PointInTime(self.runtime.now()))[11:19]
        count = count_text(workers, "worker")
        return f"[b]tpuctl top[/b]  {where}  {count}  [b]{price}[/b]  {now} UTC"

    def slice_cells(self, watched: WatchedSlice) -> list[str]:
        """A row of the upper table."""
        workers, now_s = watched.known_workers, time.monotonic()
        steps = [each.step for each in workers if each.step is not None]
        rates = [rate for each in workers if (rate := each.steps_per_s(now_s)) is not None]
        left_s = [left for each in workers if (left := each.left_s(now_s)) is not None]
        last = max((each.last_step for each in workers if each.last_step), default=None)
        usd, so_far = watched.usd_per_hour, watched.usd_so_far(self.runtime.now())
        return [
            watched.name,
            watched.state,
            watched.accelerator_type,
            f"{min(steps)}{f'/{last}' if last else ''}" if steps else "-",
            f"{min(rates):.3g}" if rates else "-",
            age(max(left_s)) if left_s else "-",
            "-" if usd is None else str(Usd(usd)),
            "-" if so_far is None else str(Usd(so_far)),
        ]

    def rows(self) -> list[WorkerRow]:
        """The rows of the lower table, filtered and sorted."""
        watched = self.chosen
        if watched is None:
            return []
        found = worker_rows(watched, self.runtime.now(), time.monotonic())
        found = [row for row in found if self.wanted in " ".join(worker_cells(row)).lower()]
        return sorted(found, key=SORT_KEYS[SORTS[self.sorting]])

    def show_pictures(self, rows: Sequence[WorkerRow]) -> None:
        """The mesh of the chips, and how busy they were in the last minutes."""
        watched = self.chosen
        title = list(MESH_METRICS)[self.mesh_metric]
        if watched is None or not watched.workers:
            self.put_picture("#mesh", Text())
            self.put_picture("#sparks", Text(watched.trouble if watched else ""))
            return
        kind = catalog.accelerator_type(watched.accelerator_type)
        shares = [chip_shares(row, MESH_METRICS[title]) for row in sorted(rows, key=worker_number)]
        picture = mesh.mesh_text(kind.topology, shares)
        sparks = Text("\n".join(spark_lines(watched, title)))
        self.put_picture("#mesh", picture)
        self.put_picture("#sparks", sparks)

    def put_picture(self, name: str, picture: Text) -> None:
        """Draw a picture; the screen is laid out again only where its size is another one."""
        size = picture.plain.count("\n"), max(map(len, picture.plain.split("\n")))
        is_same, self.sizes[name] = self.sizes.get(name) == size, size
        self.query_one(name, Static).update(picture, layout=not is_same)

    def show_findings(self) -> None:
        """What is wrong with the chosen job or node, the first lines of it."""
        watched = self.chosen
        found = watched.findings(self.runtime.now()) if watched else []
        lines = [printable(f"{each.sentence}; run: {each.command}") for each in found]
        if watched and len(lines) > MOST_FINDINGS:
            more = f"and {len(lines) - MOST_FINDINGS + 1} more: tpuctl explain {watched.name}"
            lines[MOST_FINDINGS - 1 :] = [more]
        box = self.query_one("#findings", Static)
        box.display = bool(lines)
        box.update(Text("\n".join(lines)))

    def show_lines(self) -> None:
        """Write the lines of the log that are new."""
        new = self.watching.line_count - self.lines_shown
        self.lines_shown = self.watching.line_count
        log = self.query_one("#log", RichLog)
        for name, line in list(self.watching.lines)[-new:] if new else ():
            several = f"{name} " if len(self.slices()) > 1 else ""
            log.write(printable(f"{several}[{line.attempt}-{line.worker_id}] {line.text}"))

    # ------------------------------------------------------------------ what keys do

    def action_interrupt(self) -> None:
        """Leave, as any command does on Ctrl-C."""
        self.exit(result=True)

    def action_sort(self) -> None:
        """Sort the workers by the next column."""
        self.sorting = (self.sorting + 1) % len(SORTS)
        self.notify(f"sorted by {SORTS[self.sorting]}", timeout=2)
        self.refresh_all()

    def action_mesh(self) -> None:
        """Show the next metric in the mesh."""
        self.mesh_metric = (self.mesh_metric + 1) % len(MESH_METRICS)
        self.refresh_all()

    def action_log(self) -> None:
        """Give the log the place of workers and mesh, or take it back."""
        self.query_one("#pictures").display = not self.query_one("#pictures").display
        self.query_one("#workers").display = self.query_one("#pictures").display

    def action_filter(self) -> None:
        """Ask for a text that the rows must have."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        self.wanted = event.value.lower()
        self.refresh_all()

    def on_input_submitted(self) -> None:
        """Keep the filter and go back to the table."""
        self.query_one("#filter").display = False
        self.query_one("#workers").focus()

    def action_all(self) -> None:
        """Show every worker again."""
        self.query_one("#filter", Input).value = ""
        self.on_input_submitted()

    def action_help(self) -> None:
        """Show what each key does."""
        self.push_screen(Help())

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show all that is known of the worker under the cursor."""
        rows = self.rows()
        if event.data_table.id == "workers" and event.cursor_row < len(rows):
            self.push_screen(WorkerDetails(rows[event.cursor_row]))

    def on_worker(self, verb: str, *argv: str) -> list[str] | None:
        """The command that does something on the worker under the cursor; None without one."""
        watched, rows = self.chosen, self.rows()
        at = self.query_one("#workers", DataTable).cursor_row
        if watched is None or at >= len(rows):
            return None
        noun = "job" if watched.job else "node"
        context = self.runtime.context_name.value
        tpuctl = [sys.executable, "-P", "-m", "tpuctl", "--context", context, noun, verb]
        return [*tpuctl, watched.name, "--worker", str(rows[at].worker.worker_id), *argv]

    def action_shell(self) -> None:
        """Log in to the worker under the cursor; the screen comes back afterwards."""
        if (argv := self.on_worker("ssh")) is None:
            return
        with self.suspend():
            subprocess.run(argv, check=False)
        self.refresh_all()

    def action_threads(self) -> None:
        """Show where the threads of the worker's programs are; none of them is ended."""
        if argv := self.on_worker("exec", "--", *ship.command(ship.THREAD_VIEW)):
            self.notify("the worker is asked for its stacks", timeout=3)
            self.read_threads(argv)

    @work(thread=True)
    def read_threads(self, argv: list[str]) -> None:
        """Run the program that tells them, and show what it prints."""
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        told = done.stdout.strip() if done.returncode == 0 else done.stderr.strip()
        text = told or "No program runs there: no job has started one, and nobody holds the chips."
        self.call_from_thread(self.push_screen, PlainText(text))

    def action_cancel(self) -> None:
        """Ask whether the job under the cursor is to be cancelled."""
        watched = self.chosen
        if watched is None or watched.job is None:
            self.notify("only a job can be cancelled", severity="warning")
            return
        so_far = watched.usd_so_far(self.runtime.now())
        cost = "" if so_far is None else f" It has cost {Usd(so_far)} USD."
        question = f"Cancel job {watched.name} in context {self.runtime.context.name}?{cost}"

        def go_on(yes: bool | None) -> None:
            if yes and watched is not None:
                self.cancel_job(watched.name)

        self.push_screen(Confirmation(question), go_on)

    @work(thread=True)
    def cancel_job(self, name: str) -> None:
        """Write the wish into the job's record."""
        # It loads all that submits jobs, which the first picture need not wait for.
        from tpuctl.operations.jobs import change

        try:
            for _ in change.cancel(self.runtime, [name]):
                pass
            text, severity = f"job {name} is being cancelled", "information"
        except TpuctlError as error:
            text, severity = str(error), "error"
        self.call_from_thread(self.notify, text, severity=severity)


SORT_KEYS: dict[str, Any] = {
    "worker": lambda row: row.worker.worker_id,
    "chips": lambda row: (row.use.duty_cycle_percent or 0.0) if row.use else -1.0,
    "step": lambda row: -1 if row.worker.step is None else row.worker.step,
}


def worker_number(row: WorkerRow) -> int:
    """The number of a row's worker."""
    return row.worker.worker_id


def worker_cells(row: WorkerRow) -> list[str]:
    """The cells of a worker's row."""
    return ["-" if (value := get(row)) is None else str(value) for get in SCREEN.values()]


def spark_lines(watched: WatchedSlice, title: str) -> list[str]:
    """The legend, and the duty cycle of the busiest and the least busy worker over time."""
    lines = [f"mesh: {title}   ▁ 0   █ 100 %"]
    measured = [each for each in watched.known_workers if each.duty_cycles]
    if measured:
        ordered = sorted(measured, key=lambda each: each.duty_cycles[-1])
        for each in dict.fromkeys((ordered[0].worker_id, ordered[-1].worker_id)):
            cycles = list(watched.workers[each].duty_cycles)
            spark = mesh.sparkline(cycles, 100.0, SPARK_CELLS)
            lines.append(f"worker {each:<4} {cycles[-1]:3.0f} % {spark}")
    newest = max((e.sample.time_s for e in watched.known_workers if e.sample), default=None)
    if newest is None:
        lines.append("no worker has been measured yet")
    if watched.trouble:
        lines.append(watched.trouble)
    return lines


def put_rows(table: DataTable[str], rows: Sequence[Sequence[str]]) -> None:
    """Bring a table to these rows; cells that stay the same are not drawn again."""
    while table.row_count > len(rows):
        table.remove_row(table.coordinate_to_cell_key(Coordinate(table.row_count - 1, 0)).row_key)
    for number, row in enumerate(rows):
        if number >= table.row_count:
            table.add_row(*row)
            continue
        for column, (old, new) in enumerate(zip(table.get_row_at(number), row, strict=True)):
            if old != new:
                table.update_cell_at(
                    Coordinate(number, column), new, update_width=len(new) > len(old)
                )
