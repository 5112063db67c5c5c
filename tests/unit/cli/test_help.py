"""Help: every verb has one short line, a section and examples that it takes."""

import contextlib
import io
import shlex

import pytest
from typer.exceptions import Exit

from tpuctl.cli.app import ALIASES, COMMANDS, app, main
from tpuctl.cli.shell.help.layout import examples
from tpuctl.cli.shell.help.other_tools import ROOT_WORDS, VERB_WORDS
from tpuctl.cli.shell.help.sections import NOUNS, ROOT
from tpuctl.cli.shell.options import load_command
from tpuctl.cli.shell.runtime import Runtime

SHORT = 60
"""The longest first line that fits 80 columns beside the longest name of a noun's verbs."""


def verbs():
    """Every command that does something, by its path such as `node create`."""
    for noun, (place, _) in COMMANDS.items():
        command = load_command(noun, place)
        inner = getattr(command, "commands", None)
        if inner is None:
            yield noun, command
        for verb in inner or ():
            yield f"{noun} {verb}", command.get_command(None, verb)


def run(*argv):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out):  # where Typer writes help
        code = main(argv, Runtime(out=out, err=err, environ={}))
    return code, out.getvalue(), err.getvalue()


def test_every_first_line_is_a_short_sentence():
    lines = {path: " ".join(command.help.split("\n\n")[0].split()) for path, command in verbs()}
    lines |= {noun: text for noun, (_, text) in COMMANDS.items()}
    assert {
        path: line for path, line in lines.items() if len(line) > SHORT or line[-1] != "."
    } == {}


def test_every_command_is_in_one_section():
    placed = {
        (noun, verb) for noun, found in NOUNS.items() for verb in " ".join(found.values()).split()
    }
    assert {f"{noun} {verb}" for noun, verb in placed} == {
        path for path, _ in verbs() if " " in path
    }
    listed = [name for names in ROOT.values() for name in names.split()]
    assert sorted(listed) == sorted(COMMANDS)


def test_every_command_has_examples_that_it_takes():
    commands = dict(verbs())
    assert sorted(examples()) == sorted(commands)
    wrong = []
    for path, lines in examples().items():
        for line in lines:
            argv = shlex.split(line.removeprefix('eval "$(').removesuffix(')"'))
            try:
                with contextlib.redirect_stdout(None), contextlib.suppress(Exit):
                    parse(argv[1:])
            except Exception as error:  # noqa: BLE001
                wrong.append((line, str(error)))
            typed = [ALIASES.get(argv[1], argv[1]), *argv[2:]]
            if typed[: len(path.split())] != path.split():
                wrong.append((line, f"is not {path}"))
    assert wrong == []


def parse(argv):
    """Parse a command line as the root does, and run nothing."""
    from typer.main import get_command

    group, context, rest = get_command(app), None, list(argv)
    context = group.make_context("tpuctl", rest, obj=Runtime())
    while hasattr(group, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, group, rest = group.resolve_command(context, rest)
        context = group.make_context(name, rest, parent=context)


def test_words_of_other_tools_lead_to_commands_that_exist():
    paths = {path for path, _ in verbs()} | {*COMMANDS, "--version"}
    assert sorted(set(ROOT_WORDS.values()) - paths) == []
    assert set(ROOT_WORDS).isdisjoint({*COMMANDS, *ALIASES})
    known = {path.split()[-1] for path in paths}
    assert {verb for names in VERB_WORDS.values() for verb in names} <= known


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("logs", "-f"), "error: there is no command 'logs'\nhint: run: tpuctl job logs --help\n"),
        (("qr", "rm", "q1"), "error: tpuctl queued-resource has no verb 'rm'\n"
         "hint: run: tpuctl queued-resource delete q1\n"),
        (("node", "lsit"), "error: No such command 'lsit'. Did you mean 'list'?\n"
         "hint: run: tpuctl node --help\n"),
        (("help", "nope"), "error: there is no page 'nope'\nhint: run: tpuctl help\n"),
    ],
)  # fmt: skip
def test_a_command_of_another_tool_is_answered_with_ours(argv, error):
    code, out, err = run(*argv)
    assert (code, out, err) == (10 if argv[0] == "help" else 2, "", error)


def test_a_help_page_has_own_options_the_pointer_and_examples(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("help", "qr", "wait")
    assert (code, out) == (
        0,
        "Usage: tpuctl queued-resource wait [OPTIONS] {NAME}\n\n"
        "  Wait until a request is ACTIVE: its nodes are READY.\n\n"
        "Arguments:\n"
        "  NAME  The queued resource.  [required]\n\n"
        "Options:\n"
        "  --timeout DURATION  How long to wait, such as 20m.\n"
        "  -h, --help          Show this message and exit.\n\n"
        "Every command takes -o, -c, --project, --zone and more: tpuctl help options\n\n"
        "Examples:\n"
        "  tpuctl qr wait q1 --timeout 12h\n",
    )
    assert run("qr", "wait", "-h") == run("help", "qr", "wait")


def test_pages_of_the_documentation_are_shown():
    code, out, err = run("help", "job-file")
    assert (code, out.splitlines()[0], err) == (0, "# The job file", "")
    code, out, _ = run("help")
    assert code == 0
    assert "job-file\tThe job file\n" in out
    assert "--zone ZONE" in run("help", "options")[1]
