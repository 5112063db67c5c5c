"""How a help page is laid out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any

from tpuctl.cli.shell.help.sections import Sections, section_names

SHARED_NOTE = "Every command takes -o, -c, --project, --zone and more: tpuctl help options"

_DEFINITION = re.compile(r"\s*(\S.*?)(?:\s{2,}(\S.*))?")
"""A word, and what it means behind two spaces at least."""


@cache
def examples() -> Mapping[str, Sequence[str]]:
    """The example lines of each command, by its path such as `node create`."""
    import tomllib

    return tomllib.loads(Path(__file__).with_name("examples.toml").read_text("utf-8"))


def write_text(text: str, formatter: Any) -> None:
    """Write a command's help, where lines `WORD  meaning` below a `\\b` become two columns."""
    for paragraph in cleandoc(text).split("\n\n"):
        formatter.write_paragraph()
        rows = [_DEFINITION.fullmatch(line) for line in paragraph.split("\n")[1:]]
        with formatter.indentation():
            if paragraph.startswith("\b\n") and all(rows):
                formatter.write_dl([row.groups("") for row in rows if row])
            else:
                formatter.write_text(paragraph)


def write_sections(group: Any, ctx: Any, formatter: Any, sections: Sections) -> None:
    """Write a section of names and one line each for every purpose that the group serves."""
    names = [name for name in group.list_commands(ctx) if not group.commands[name].hidden]
    widest = max(map(len, names), default=0)
    for title, listed in section_names(sections, names).items():
        rows = [(f"{name:<{widest}}", _line(group.get_command(ctx, name))) for name in listed]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def write_options(command: Any, ctx: Any, formatter: Any, shared: Iterable[str]) -> None:
    """Write the arguments and options of a command, and where those that all take are listed."""
    known = set(shared)
    rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and parameter.name not in known:
            title = "Arguments" if parameter.param_type_name == "argument" else "Options"
            rows[title].append(record)
    for title, listed in rows.items():
        if listed:
            with formatter.section(title):
                formatter.write_dl(listed)
    formatter.write_paragraph()
    formatter.write_text(SHARED_NOTE)


def write_examples(path: str, formatter: Any) -> None:
    """Write the examples of a command as they are typed."""
    lines = examples().get(path, ())
    if lines:
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def _line(command: Any) -> str:
    """The first sentence of a command's help."""
    return " ".join((command.help or "").split("\n\n")[0].split())
