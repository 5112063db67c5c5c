"""`tpuctl help`: a page of the documentation, or the options that every command takes."""

from typing import Annotated, cast

import typer
from typer.core import TyperGroup

from tpuctl.cli.shell.options import TABLE, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.local import help_pages

OPTIONS = "options"


def complete_topic(
    ctx: typer.Context, args: list[str], incomplete: str
) -> list[tuple[str, str] | str]:
    """Commands and pages."""
    root = cast(TyperGroup, ctx.find_root().command)
    nouns: list[tuple[str, str] | str] = [*root.list_commands(ctx), OPTIONS]
    return nouns + completed_by("page")(ctx, args, incomplete)


def show(
    runtime: Runtime,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]",
            help="A command, a page, or `options`.",
            autocompletion=complete_topic,
        ),
    ] = None,
) -> None:
    """Show the help of a command, or a page of the documentation.

    Without a topic it lists the pages.
    """
    if topic is None:
        _list_pages(runtime)
    elif topic == OPTIONS:
        _show_options(runtime)
    else:
        _show_page(runtime, help_pages.read_page(topic))


def _list_pages(runtime: Runtime) -> None:
    titles = {OPTIONS: "The options that every command takes", **help_pages.page_titles()}
    runtime.output.items(titles.items(), {"page": lambda row: row[0], "about": lambda row: row[1]})
    runtime.output.note(
        "to read one, run: tpuctl help PAGE; for a command: tpuctl help node create"
    )


def _show_options(runtime: Runtime) -> None:
    rows = [
        (", ".join(declarations), str(extra.get("metavar", "")), str(extra["help"]))
        for _, declarations, extra in TABLE
    ]
    width = max(len(f"{names} {value}") for names, value, _ in rows) + 2
    runtime.output.line("Every command takes these, before the noun and after the verb alike:\n")
    for names, value, about in rows:
        runtime.output.line(f"  {f'{names} {value}':<{width}}{about}")
    runtime.output.line("\nEvery list takes --filter, --sort, --columns, --limit and --watch too.")


def _show_page(runtime: Runtime, text: str) -> None:
    if not runtime.output.is_screen:
        runtime.out.write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=runtime.out)
    with console.pager(styles=True, links=False):
        console.print(Markdown(text))
