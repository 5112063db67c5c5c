"""The pages of docs/cli, made from help: `PYTHONPATH=tests python -m unit.docs.cli_pages`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from tpuctl.cli.app import COMMANDS
from tpuctl.cli.shell.help.layout import examples
from tpuctl.cli.shell.options import TABLE, load_command

PAGES = Path(__file__).parents[3] / "docs" / "cli"
SHARED = {option for _, declarations, _ in TABLE for option in declarations}


def pages() -> dict[str, str]:
    """File name -> text, a page per noun or root verb."""
    found = {f"{name}.md": page(name) for name in COMMANDS}
    shared = "\n".join(
        f"| `{', '.join(declarations)}` | {extra['help']} |" for _, declarations, extra in TABLE
    )
    names = "\n".join(f"- [{name}]({name}.md): {text}" for name, (_, text) in COMMANDS.items())
    found["README.md"] = (
        f"# Commands\n\n{names}\n\nEvery command takes these, before the noun and after the verb "
        f"alike:\n\n| option | |\n|---|---|\n{shared}\n"
    )
    return found


def page(name: str) -> str:
    """One command and its verbs, in the words of their help."""
    command = load_command(name, COMMANDS[name][0])
    parts = [f"# tpuctl {name}", COMMANDS[name][1]]
    verbs = getattr(command, "commands", None)
    if verbs is None:
        return "\n\n".join([*parts, *described(f"tpuctl {name}", command)]) + "\n"
    for verb in verbs:
        parts += [
            f"## {verb}",
            *described(f"tpuctl {name} {verb}", command.get_command(None, verb)),
        ]
    return "\n\n".join(parts) + "\n"


def described(path: str, command: Any) -> Iterator[str]:
    """What it does, how it is written, and its own options."""
    context = typer.Context(command, info_name=path, help_option_names=["-h", "--help"])
    yield (command.help or "").replace("\b\n", "")  # which keeps the lines below it as they are
    yield f"    {command.get_usage(context).removeprefix('Usage: ')}"
    rows = [record for record in map(lambda one: one.get_help_record(context), command.params)]
    own = [row for row in rows if row and not SHARED & set(row[0].replace(",", "").split())]
    if own:
        yield "| | |\n|---|---|\n" + "\n".join(f"| `{how}` | {what} |" for how, what in own)
    if lines := examples().get(path.removeprefix("tpuctl ")):
        yield "```sh\n" + "\n".join(lines) + "\n```"


if __name__ == "__main__":
    for file_name, text in pages().items():
        (PAGES / file_name).write_text(text, "utf-8")
