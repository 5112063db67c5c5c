"""The command lines of docs/node.md are command lines that there are."""

import re
import shlex
from pathlib import Path

import typer

from tpuctl.cli.node.group import app

PAGE = (Path(__file__).parents[3] / "docs" / "node.md").read_text("utf-8")
LINES = [
    shlex.split(line, comments=True)
    for fence in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in fence.splitlines()
    if line.startswith("tpuctl ")
]


def test_the_command_lines_are_understood():
    for _tpuctl, noun, verb, *arguments in LINES:
        assert noun == "node"
        command = app.get_command(None, verb)
        command.parse_args(typer.Context(command, info_name=verb), arguments)


def test_there_are_such_lines():
    assert {line[2] for line in LINES} == {"cp", "exec", "forward", "ssh"}
