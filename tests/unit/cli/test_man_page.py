"""Manual pages: every command has one, with all of its options, in known words of troff."""

import re
from pathlib import Path

from tpuctl.cli.app import COMMANDS
from tpuctl.cli.shell.help.layout import examples
from tpuctl.cli.shell.help.man_page import man_page
from tpuctl.cli.shell.options import TABLE
from unit.cli.test_help import run, verbs

MACROS = {".TH", ".SH", ".SS", ".PP", ".TP", ".RS", ".RE", ".nf", ".fi"}
ESCAPES = re.compile(r"\\(?:f[BR]|\((?:ga|dq|aq|ti|ha)|\[u[0-9A-F]{4,6}\]|[-e&])")
SHARED = {f"{name}_option" for name, _, _ in TABLE}
HOW_TO = Path(__file__).parents[3] / "docs" / "completion.md"


def test_every_page_has_known_macros_and_escapes_only():
    wrong = []
    for path, command in verbs():
        page = man_page(f"tpuctl {path}", command)
        for line in page.splitlines():
            plain = ESCAPES.sub("", line)
            macro = line.split()[0] if line.startswith((".", "'")) else ""
            if not (line.isascii() and "\\" not in plain and (not macro or macro in MACROS)):
                wrong.append((path, line))
        own = [each for each in command.params if each.name not in SHARED]
        for option in (each for each in own if each.opts[0].startswith("--")):
            named = option.opts[0].replace("-", "\\-")
            is_there = bool(re.search(rf"^\\fB.*{re.escape(named)}\b", page, re.MULTILINE))
            if is_there == option.hidden:
                wrong.append((path, named))
        if page.count("\n.nf\n") < bool(examples()[path]):
            wrong.append((path, "has no examples"))
    assert wrong == []


def test_help_prints_the_page_of_the_root_a_noun_and_a_verb():
    heads = [run("help", *words, "--man")[1].splitlines()[2] for words in ((), ("qr", "wait"))]
    assert heads == [
        "tpuctl \\- Cloud TPU slices, data, jobs and checkpoints from a terminal",
        "tpuctl\\-queued\\-resource\\-wait \\- Wait until a request is ACTIVE: its nodes are READY",
    ]
    noun = run("help", "qr", "--man")[1]
    assert ('.SH "QUEUED\\-RESOURCE RESET"' in noun, '.SS "Examples"' in noun) == (True, True)
    error = "error: there is no command 'node nope'\nhint: run: tpuctl --help\n"
    assert run("help", "node", "nope", "--man") == (10, "", error)


def test_the_how_to_installs_the_page_of_every_command():
    listed = re.search(r"for command in (.*?); do", HOW_TO.read_text("utf-8"), re.DOTALL)
    assert sorted(listed[1].replace("\\\n", " ").split()) == sorted(COMMANDS)
