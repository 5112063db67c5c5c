"""Help: every verb has one short line, a section and examples that it takes."""

import contextlib
import io
import shlex

import pytest
from typer._click.formatting import HelpFormatter
from typer.exceptions import Exit

from tpuctl.cli.app import ALIASES, COMMANDS, app, main
from tpuctl.cli.shell.help import layout
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


def test_words_and_what_they_mean_stay_in_two_columns_in_a_narrow_window():
    formatter = HelpFormatter(width=40)
    lines = "Show.", "", "\b", "    kept    its job has ended and was told to keep it", "    odd"
    layout.write_text("\n".join(lines), formatter)
    assert formatter.getvalue().splitlines() == [
        "  Show.",
        "",
        "  kept  its job has ended and was told",
        "        to keep it",
        "  odd",
    ]


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("logs", "-f"), "error: there is no command 'logs'\nhint: run: tpuctl job logs --help\n"),
        (("logs", "train", "-f"), "error: there is no command 'logs'\n"
         "hint: run: tpuctl job logs train -f\n"),
        (("queue",), "error: there is no command 'queue'\nhint: run: tpuctl job list\n"),
        (("launch", "-c", "mine", "task.yaml", "--down"), "error: there is no command 'launch'\n"
         "hint: run: tpuctl run task.yaml\n"),
        (("sky", "exec", "mine", "task.yaml"), "error: there is no command 'sky'\n"
         "hint: run: tpuctl job submit task.yaml --node mine\n"),
        (("exec", "-c", "mine", "task.yml", "-d"), "error: there is no command 'exec'\n"
         "hint: run: tpuctl job submit task.yml --node mine\n"),
        (("sky", "exec", "mine", "--", "cat", "task.yaml"), "error: there is no command 'sky'\n"
         "hint: run: tpuctl node exec mine -- cat task.yaml\n"),
        (("sky", "jobs", "queue"), "error: there is no command 'sky'\n"
         "hint: run: tpuctl job list\n"),
        (("compute", "tpus", "tpu-vm", "create", "n1", "--version=v2-alpha-tpuv5-lite", "--async"),
         "error: there is no command 'compute'\n"
         "hint: run: tpuctl node create n1 --runtime-version=v2-alpha-tpuv5-lite --no-wait\n"),
        (("tpu-vm", "ssh", "n1", "--worker=all", "--command=ls -l"),
         "error: there is no command 'tpu-vm'\nhint: run: tpuctl node exec n1 '--command=ls -l'\n"),
        (("gcloud", "compute", "tpus", "queued-resources", "list", "--", "--async"),
         "error: there is no command 'gcloud'\n"
         "hint: run: tpuctl queued-resource list -- --async\n"),
        (("node", "create", "n1", "--version=v2"), "error: No such option: --version (Possible "
         "options: --description, --reservation, --runtime-version)\n"
         "hint: write --runtime-version, or leave it out: the right one is chosen\n"),
        (("run", "job.yaml", "--dry-run"), "error: No such option: --dry-run\n"
         "hint: run: tpuctl job submit FILE --dry-run\n"),
        (("kubectl", "get", "pods"), "error: there is no command 'kubectl'\n"
         "hint: run: tpuctl node list\n"),
        (("config", "set", "project", "x"), "error: there is no command 'config'\n"
         "hint: run: tpuctl context edit --help\n"),
        (("gsutil", "-m", "cp", "gs://b/a", "a"), "error: there is no command 'gsutil'\n"
         "hint: run: tpuctl data pull gs://b/a a\n"),
        (("storage", "ls"), "error: there is no command 'storage'\n"
         "hint: run: tpuctl data list\n"),
        (("storage", "cp", "-r", "a", "gs://b/a"), "error: there is no command 'storage'\n"
         "hint: run: tpuctl data push a gs://b/a\n"),
        (("job", "start", "job.yaml"), "error: tpuctl job has no verb 'start'\n"
         "hint: run: tpuctl job submit job.yaml\n"),
        (("node", "list", "--format=json"), "error: No such option: --format (Possible options: "
         "--sort)\nhint: write -o json, -o yaml, -o csv or -o name\n"),
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


def test_a_program_in_place_of_a_command_gets_a_job_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my train.py").write_text("print()\n")
    line = "tpuctl run job.yaml"
    echo = "{name: my-train, resources: {accelerators: v5litepod-1}, workdir: ., run: python3 "
    for argv in (("my train.py",), ("python", "my train.py")):
        code, _, err = run(*argv)
        assert (code, err.splitlines()[0]) == (
            2, "error: my train.py is a program, not a job file"
        )  # fmt: skip
        assert err.splitlines()[1].startswith(f"hint: run: echo '{echo}")
        assert err.endswith(f" > job.yaml && {line}\n")
    (tmp_path / "job.yaml").touch()
    assert run("my train.py")[2].endswith(f"hint: run: {line}\n")


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
