"""The command lines of docs/node.md are command lines that there are."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from tpuctl.cli.node.group import app

PAGE = (Path(__file__).parents[3] / "docs" / "node.md").read_text("utf-8")
LINES = [
    shlex.split(line, comments=True)
    for fence in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in fence.splitlines()
    if line.startswith("tpuctl ")
]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_the_command_line_is_understood(line):
    _tpuctl, noun, verb, *arguments = line
    assert noun == "node"
    command = typer.main.get_command(app).commands[verb]
    command.parse_args(typer.Context(command, info_name=verb), arguments)


def test_there_are_such_lines():
    assert {line[2] for line in LINES} == {"cp", "exec", "forward", "ssh"}
