"""One thing on one screen: fields, then blocks of rows; on a pipe the same words, plain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from tpuctl.cli.shell.output import Output
from tpuctl.cli.shell.tables.fit import GAP
from tpuctl.cli.shell.tables.grid import print_grid, styled
from tpuctl.cli.shell.tables.values import printable


@dataclass(frozen=True, slots=True)
class DetailBlock:
    """A titled table without a header; the last cell of a row may be broken over lines."""

    title: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class DetailView:
    """A heading with its state, labelled fields, and blocks; empty blocks are not shown."""

    heading: str
    state: str
    fields: Sequence[tuple[str, str]]
    blocks: Sequence[DetailBlock]


def print_details(output: Output, sheet: DetailView) -> None:
    """Print a detail view, coloured and wrapped on a terminal, else as plain lines."""
    sheet = replace(
        sheet,
        fields=[(label, output.typed(text)) for label, text in sheet.fields],
        blocks=[replace(block, title=output.typed(block.title)) for block in sheet.blocks],
    )
    if output.is_terminal:
        _show_on_terminal(output.out, sheet)
    else:
        _write(output.out, sheet)


def _write(out: TextIO, sheet: DetailView) -> None:
    out.write(f"{sheet.heading}  {sheet.state}\n")
    width = max((len(label) for label, _ in sheet.fields), default=0) + GAP
    out.writelines(f"{label:<{width}}{printable(text)}\n" for label, text in sheet.fields)
    for block in _filled(sheet):
        out.write(f"\n{block.title}\n")
        widths = [max(map(len, column)) + GAP for column in zip(*block.rows, strict=True)]
        for row in block.rows:
            cells = [f"{printable(cell):<{w}}" for cell, w in zip(row, widths, strict=True)]
            out.write(f"  {''.join(cells).rstrip()}\n")


def _show_on_terminal(out: TextIO, sheet: DetailView) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False)
    console.print(Text.assemble((sheet.heading, "bold"), "  ", styled(sheet.state)))
    print_grid(console, sheet.fields, first="dim")
    for block in _filled(sheet):
        console.print(Text(f"\n{block.title}", style="bold"))
        print_grid(console, block.rows, indent=GAP)


def _filled(sheet: DetailView) -> list[DetailBlock]:
    return [block for block in sheet.blocks if block.rows]
