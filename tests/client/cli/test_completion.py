"""Completion as the shells ask for it: their variables in, a line for each value out."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from unittest import mock

import pytest

from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.completion import name_cache, refresh


@pytest.fixture
def shell(cloud, monkeypatch, capsys):
    """`shell(words, name="bash")` is what that shell gets; no list command is started."""
    monkeypatch.setattr(refresh, "spawn_detached", lambda *_: None)
    name_cache.remove_lists(cloud.home, "local")  # of the tests before, which share the home

    def ask(*words, name="bash"):
        line = " ".join(("tpuctl", *words))
        asked = {
            "_TPUCTL_COMPLETE": f"complete_{name}",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words)),
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        with mock.patch.dict(os.environ, asked), pytest.raises(SystemExit) as ended:
            main([], Runtime(environ={"TPUCTL_HOME": str(cloud.home)}))
        said = capsys.readouterr()
        assert (ended.value.code, said.err) == (0, "")
        return said.out.split("\n")[:-1] if said.out.strip() else []

    yield ask
    name_cache.remove_lists(cloud.home, "local")


def test_names_of_real_lists_are_offered_in_the_words_of_each_shell(tpuctl, shell, tmp_path):
    tpuctl("node", "create", "n1", "-t", "v5litepod-16")
    tpuctl("qr", "create", "q1", "-t", "v5litepod-4")
    (tmp_path / "a.txt").write_text("a")
    tpuctl("data", "push", str(tmp_path / "a.txt"), "gs://local-bucket/src/a.txt")
    for argv in (("node", "list"), ("qr", "list"), ("data", "list"), ("job", "list")):
        assert tpuctl(*argv).code == 0
    asked = {
        ("node", "describe", "n"): ["n1"],
        ("node", "exec", "n1", "--worker", "2"): ["2"],
        ("qr", "delete", "q"): ["q1"],
        ("node", "ssh", "n1", "--zone", "=", "us-west4"): ["us-west4-a", "us-west4-b"],
        ("data", "rm", "gs", ":", "//l"): [
            "//local-bucket/",
            "//local-bucket/src/",
            "//local-bucket/tpuctl/",
        ],
        ("data", "rm", "gs", ":", "//local-bucket/src/"): ["//local-bucket/src/a.txt"],
        ("node", "cp", "n"): ["n1:"],
        ("-c", "lo"): ["local"],
        ("node", "list", "-o", "ya"): ["yaml"],
        ("job", "init", "digits-j"): ["digits-jax"],
        ("help", "job-f"): ["job-file"],
        ("node", "list", "--sort", "st"): ["state"],
        ("job", "list", "--columns", "id,sta"): ["id,state"],
        ("qr", "list", "--filter", "acc"): ["accelerator_type=", "accelerator_type~"],
        ("data", "list", "--sort", "size"): ["size_bytes"],
        ("checkpoint", "list", "--sort", "pin"): ["pinned"],
        ("catalog", "zones", "--columns", "gen"): ["generations"],
        ("context", "list", "--sort", "buc"): ["bucket"],
        ("history", "--sort", "slice"): ["slice_hours"],
        ("local", "preempt", "n"): ["n1"],
        ("job", "submit", "no"): [],
        ("logs", "x"): [],
        ("node", "show", "x"): [],
        ("node", "exec", "n1", "--", "n"): [],
        ("node", "describe", "'n"): ["n1"],
    }
    wrong = {words: found for words, want in asked.items() if (found := shell(*words)) != want}
    assert wrong == {}
    zsh = shell("node", "describe", "n", name="zsh")
    assert zsh == ["""_arguments '*: :(("n1":"us-west4-a READY"))'"""]
    assert shell("node", "describe", "n", name="fish") == ["n1\tus-west4-a READY"]


def test_a_part_of_a_list_is_not_taken_for_all(tpuctl, shell):
    tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    tpuctl("node", "list", "--zone", "us-west4-a")
    tpuctl("node", "list", "--project", "other")
    assert shell("node", "describe", "n") == []
    tpuctl("node", "list", "--filter", "name=none", "--limit", "0")
    assert shell("node", "describe", "n") == ["n1"]


def test_what_is_not_known_yet_is_there_for_the_next_time(cloud, tpuctl):
    tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    name_cache.remove_lists(cloud.home, "local")
    (cloud.home / "completion" / "local.lock").unlink(missing_ok=True)
    environ = {
        **os.environ,
        "TPUCTL_HOME": str(cloud.home),
        "_TPUCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": "tpuctl node describe n",
        "COMP_CWORD": "3",
    }
    argv = [sys.executable, "-P", "-m", "tpuctl"]

    def ask():
        return subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)

    first = ask()
    assert (first.stdout.strip(), first.stderr) == ("", "")
    deadline = time.monotonic() + 60
    while not name_cache.read_lists(cloud.home, "local") and time.monotonic() < deadline:
        time.sleep(0.05)
    second = ask()
    assert (second.stdout.split(), second.stderr) == (["n1"], "")


BASH = """
eval "$(_TPUCTL_COMPLETE=source_bash tpuctl)"
COMP_WORDS=(tpuctl data rm gs : //l)
COMP_CWORD=5
_tpuctl_completion tpuctl
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_itself_completes_by_the_script_that_is_installed(cloud, tpuctl, tmp_path):
    program = tmp_path / "tpuctl"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m tpuctl "$@"\n')
    program.chmod(0o755)
    row = name_cache.KnownName("gs://local-bucket/src/a.txt")
    name_cache.write_list(cloud.home, "local", "object gs://local-bucket/", [row], time.time())
    environ = {**os.environ, "TPUCTL_HOME": str(cloud.home)}
    environ["PATH"] = f"{tmp_path}:{environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH], env=environ, capture_output=True, text=True, check=True
    )
    assert (done.stdout.split(), done.stderr) == (
        ["//local-bucket/", "//local-bucket/src/", "//local-bucket/src/a.txt"],
        "",
    )
