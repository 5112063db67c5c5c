"""Long work as it goes: one live line on a terminal, a line per event elsewhere."""

import io
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpuctl.byte_size import size_text
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.slices.wait import Stateful

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PAINTS_A_SECOND = 4


def show_states(runtime: Runtime, noun: str, states: Iterable[Stateful]) -> Stateful | None:
    """Print every state as it comes; returns the last."""
    started = time.monotonic()
    last = None
    for last in states:
        took_s = time.monotonic() - started
        runtime.output.note(f"{noun} {last.name}: {last.state} ({took_s:.1f} s)")
    return last


def progress_console(runtime: Runtime) -> "Console":
    """The console of stderr, with colours that can be read on black and on white."""
    from rich.console import Console
    from rich.theme import Theme

    from tpuctl.cli.shell.tables.grid import GREEN, YELLOW

    colours = {
        **dict.fromkeys(("progress.download", "progress.spinner", "bar.finished"), GREEN),
        **dict.fromkeys(("progress.elapsed", "progress.remaining"), YELLOW),
    }
    return Console(file=runtime.err, theme=Theme(colours))


class TerminalPage(io.StringIO):
    """A text with the widths and colours of the terminal on which it will be shown."""

    def isatty(self) -> bool:
        """Whether tables are aligned."""
        return True


@contextmanager
def show_page(runtime: Runtime, draw: Callable[[int], "Text"]) -> Iterator[None]:
    """Keep on the terminal what `draw` makes for a window of so many lines; at the end it is gone.

    It is painted at once, and then four times a second by a thread of its own.
    """
    from rich.live import Live

    console = progress_console(runtime)
    with Live(
        get_renderable=lambda: draw(console.height),
        console=console,
        refresh_per_second=PAINTS_A_SECOND,
        transient=True,
        vertical_overflow="visible",
    ) as live:
        live.refresh()
        yield


@contextmanager
def show_spinner(
    runtime: Runtime, text: str, *, total: int | None = None, is_brief: bool = False
) -> Iterator[Callable[[], None]]:
    """Show a spinner, the time so far and, with a `total`, how many parts are done of how many.

    Yields what counts one part more. Where stderr is not a terminal the text is a line, unless the
    work `is_brief`.
    """
    if runtime.shared.quiet or not runtime.err.isatty():
        if not is_brief:
            runtime.output.note(text)
        yield lambda: None
        return
    from rich.progress import (
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
    counted = [MofNCompleteColumn()] if total else []
    console = progress_console(runtime)
    with Progress(
        *columns, *counted, TimeElapsedColumn(), console=console, transient=True
    ) as progress:
        task = progress.add_task(text, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def show_byte_bar(runtime: Runtime, total_bytes: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar of bytes with rate and time left on a terminal; elsewhere nothing.

    Where nobody knows how many are to come (None) it has the bytes so far and their rate.
    """
    if runtime.shared.quiet or not runtime.err.isatty() or total_bytes == 0:
        yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = [BarColumn(), DownloadColumn(binary_units=True), TextColumn("{task.fields[rate]}")]
    left = [TimeRemainingColumn()] if total_bytes else []
    with Progress(*columns, *left, console=progress_console(runtime)) as progress:
        task = progress.add_task("", total=total_bytes, rate="")

        def advance(count: int) -> None:
            speed = progress.tasks[0].speed
            progress.update(task, advance=count, rate=f"{size_text(speed)}/s" if speed else "")

        yield advance
