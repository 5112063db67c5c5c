"""Rows without a header on a terminal: labels in one column, texts wrapped beside them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpuctl.cli.shell.tables.fit import GAP, TEXT_WIDTH
from tpuctl.cli.shell.tables.values import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

GREEN, RED, YELLOW = "color(28)", "red", "color(136)"
"""Read on black and on white: a terminal's own yellow and green are too pale for the latter."""
STATE_STYLES = {
    **dict.fromkeys(("READY", "ACTIVE", "SUCCEEDED", "RUNNING", "COMPLETE"), GREEN),
    **dict.fromkeys(("PREEMPTED", "SUSPENDED", "FAILED", "TERMINATED", "CORRUPT", "LOST"), RED),
    **dict.fromkeys(("CREATING", "PROVISIONING", "WAITING", "PREPARING", "RECOVERING"), YELLOW),
    **dict.fromkeys(("UNSEALED", "UNVERIFIED", "PARTIAL"), YELLOW),
    "PASS": GREEN,
    "FAIL": RED,
    **dict.fromkeys(("WARN", "UNKNOWN", "SKIPPED"), YELLOW),
}


def print_grid(
    console: "Console", rows: Sequence[Sequence[str]], *, first: str = "", indent: int = 0
) -> None:
    """Print rows in columns, the first in the style `first`, the last wrapped at the window.

    Where the columns before it leave too little of a narrow window, or less than its longest word,
    the last cell of a row has lines of its own. The other cells are whole.
    """
    from rich.cells import cell_len
    from rich.text import Text

    *before, _ = zip(*rows, strict=True)
    widths = [max(cell_len(printable(cell)) for cell in column) for column in before]
    margin = indent + sum(widths) + GAP * len(widths)
    is_narrow = console.width - margin < min(TEXT_WIDTH, max(cell_len(row[-1]) for row in rows))
    beside = indent + GAP if is_narrow else margin
    for row in rows:
        is_below = is_narrow or _longest_word(row[-1]) > console.width - beside
        margin = indent + GAP if is_below else beside
        line = Text(" " * indent)
        for number, (cell, width) in enumerate(zip(row[:-1], widths, strict=True)):
            is_label = number == 0 and first
            text = Text(printable(cell), style=first) if is_label else styled(cell)
            line.append_text(text).append(" " * (width - text.cell_len + GAP))
        if is_below and row[-1]:
            _print_line(console, line)
            line = Text(" " * margin)
        room = max(console.width - margin, TEXT_WIDTH)
        for part in styled(row[-1]).wrap(console, room) or [Text()]:
            _print_line(console, line.append_text(part))
            line = Text(" " * margin)


def _longest_word(text: str) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, text.split()), default=0)


def _print_line(console: "Console", line: "Text") -> None:
    line.rstrip()
    if line:
        console.print(line, soft_wrap=True)


def styled(text: str) -> "Text":
    """The text on one line, coloured where it is a state."""
    from rich.text import Text

    return Text(printable(text), style=STATE_STYLES.get(text.upper(), ""))
