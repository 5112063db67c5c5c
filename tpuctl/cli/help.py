"""`tpuctl help`: a page of the documentation, or the options that every command takes."""

from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from tpuctl.cli.shell.options import TABLE, completed_by, load_command
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.fit import GAP
from tpuctl.cli.shell.tables.grid import print_grid
from tpuctl.errors import NotFoundError
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
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]...",
            help="A command, a page, or `options`.",
            autocompletion=complete_topic,
        ),
    ] = None,
    is_man: Annotated[
        bool, typer.Option("--man", help="Print the manual page of the command, for man.")
    ] = False,
) -> None:
    """Show the help of a command, or a page of the documentation.

    Without a topic it lists the pages.
    """
    words = topic or []
    if is_man:
        runtime.out.write(_manual_page(words))
    elif not words:
        _list_pages(runtime)
    elif words == [OPTIONS]:
        _show_options(runtime)
    else:
        _show_page(runtime, help_pages.read_page(" ".join(words)))


def _manual_page(words: Sequence[str]) -> str:
    """The manual page of tpuctl, a noun, or a command. Raises NotFoundError."""
    from typer.main import get_command

    from tpuctl.cli.app import ALIASES, COMMANDS, app
    from tpuctl.cli.shell.help.man_page import man_page

    if not words:
        return man_page("tpuctl", get_command(app))
    name, *verb = ALIASES.get(words[0], words[0]), *words[1:]
    command: Any = None
    if name in COMMANDS:
        command = load_command(name, COMMANDS[name][0])
    if verb and isinstance(command, TyperGroup):
        command = command.get_command(cast(Any, None), " ".join(verb))
    elif verb:
        command = None
    if command is None:
        raise NotFoundError(f"there is no command {' '.join(words)!r}", hint="run: tpuctl --help")
    return man_page(" ".join(["tpuctl", name, *verb]), command)


def _list_pages(runtime: Runtime) -> None:
    titles = {OPTIONS: "The options that every command takes", **help_pages.page_titles()}
    runtime.output.items(titles.items(), {"page": lambda row: row[0], "about": lambda row: row[1]})
    runtime.output.note(
        "to read one, run: tpuctl help PAGE; for a command: tpuctl help node create"
    )


def _show_options(runtime: Runtime) -> None:
    output = runtime.output
    rows = [
        (f"{', '.join(declarations)} {extra.get('metavar', '')}".rstrip(), str(extra["help"]))
        for _, declarations, extra in TABLE
    ]
    output.sentence("Every command takes these, before the noun and after the verb alike:")
    output.line("")
    if output.is_terminal:
        from rich.console import Console

        print_grid(Console(file=runtime.out, highlight=False), rows, indent=GAP)
    else:
        width = max(len(option) for option, _ in rows) + GAP
        for option, about in rows:
            output.line(f"  {option:<{width}}{about}")
    output.line("")
    output.sentence("Every list takes --filter, --sort, --columns, --limit and --watch too.")


def _show_page(runtime: Runtime, text: str) -> None:
    if not runtime.output.is_screen:
        runtime.out.write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=runtime.out)
    with console.pager(styles=True, links=False):
        console.print(Markdown(text))
