"""`tpuctl node exec`: which workers, what is printed, who failed and why, and the exit code."""

import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from clouds import Runner

from client.cli.requests.own_slice import own_slice
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime

EXEC = ("node", "exec", "n1")
FAIL_ON_1_AND_3 = "exit $((TPU_WORKER_ID % 2 * 42))"


@pytest.fixture(scope="module")
def four(tmp_path_factory) -> Iterator[Runner]:
    """`tpuctl` with the node n1 of four workers, which know their numbers, for all tests here."""
    yield from own_slice(tmp_path_factory.mktemp("exec"), "process")


def sh(script, *options):
    return (*EXEC, *options, "--", "sh", "-c", script)


def test_it_runs_on_every_worker_with_its_own_identity(four):
    result = four(*EXEC, "--", "printenv", "TPU_WORKER_ID")
    assert result.code == 0
    assert sorted(result.out.splitlines()) == ["[0] 0", "[1] 1", "[2] 2", "[3] 3"]


def test_a_program_finds_its_number_and_how_many_there_are_as_that_of_a_job_does(four):
    result = four(*sh("echo $TPUCTL_WORKER_ID of $TPUCTL_WORKER_COUNT", "--worker", "1,3"))
    assert sorted(result.out.splitlines()) == ["[1] 1 of 4", "[3] 3 of 4"]


def test_it_takes_argv_and_not_a_shell_line(four):
    odd = "a  b;$(false)'\"*"
    result = four(*EXEC, "--worker", "0", "--", "printf", "%s", odd)
    assert (result.code, result.out) == (0, odd)


def test_a_line_for_the_shell_is_one_option(four):
    result = four(*EXEC, "--command", 'echo "$TPU_WORKER_ID $((2 * 21))" | tr 0-9 a-j')
    assert result.code == 0
    assert sorted(result.out.splitlines()) == ["[0] a ec", "[1] b ec", "[2] c ec", "[3] d ec"]
    refused = four(*EXEC, "--", "ls | wc")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.endswith(
        "hint: run: tpuctl node exec n1 --command 'ls | wc', or -- sh -c 'ls | wc'\n"
    )


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


HOSTILE = r"\033]0;title\007\033]52;c;YQ==\007\033[2J\033[31mred\033[0m 50%%\r100%% \303\244\n"


@pytest.mark.parametrize(
    ("options", "label"),
    [(("--worker", "0"), ""), ((), "\x1b[38;5;30m[0]\x1b[0m "), (("--group",), "")],
)
def test_a_terminal_sees_colours_and_no_other_control_sequences(four, options, label, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    argv = (*EXEC, *options, "--", "printf", HOSTILE)
    out = Terminal()
    runtime = Runtime(
        stdin=io.StringIO(), out=out, err=io.StringIO(), environ={"TPUCTL_HOME": str(four.home)}
    )
    assert main(argv, runtime) == 0
    seen = f"{label}?]0;title??]52;c;YQ==??[2J\x1b[31mred\x1b[0m 50%\r100% ä\n"
    assert seen in out.getvalue()
    assert "\x1b]0;title\x07\x1b]52;c;YQ==\x07\x1b[2J" in four(*argv).out


def test_on_one_worker_it_exits_as_the_command_did(four):
    assert four(*sh("exit 7", "--worker", "2")).code == 7
    assert four(*sh("kill -9 $$", "--worker", "2")).code == 137


def test_a_table_says_who_failed_and_how(four):
    script = "case $TPU_WORKER_ID in 1) exit 42;; 2) kill -9 $$;; esac; echo fine"
    result = four(*sh(script))
    assert result.code == 70
    assert sorted(result.out.splitlines()) == ["[0] fine", "[3] fine"]
    assert result.err.splitlines() == [
        "WORKER  EXIT  WHY",
        "1       42    exit 42",
        "2       137   killed by signal 9",
        "0,3     0     ok",
        "error: 2 of 4 workers failed",
        "hint: run it on them alone: tpuctl node exec n1 --only-failed -- COMMAND",
    ]


@pytest.mark.parametrize(
    ("script", "last"),
    [
        ("exit 3", "error: 4 of 4 workers failed"),
        ("kill $$", "hint: as before a preemption; run: tpuctl node describe n1"),
    ],
)
def test_where_all_failed_there_is_nobody_to_leave_out(four, script, last):
    result = four(*sh(script))
    assert (result.code, result.err.splitlines()[-1]) == (70, last)


@pytest.mark.parametrize("workers", ["all", "2"])
def test_a_slice_that_is_taken_away_meanwhile_is_told_as_that(four, workers):
    assert four("node", "create", "n3", "-t", "v5litepod-16", "--spot").code == 0
    argv = [sys.executable, "-P", "-m", "tpuctl", "node", "exec", "n3", "--worker", workers, "--"]
    environ = {**os.environ, "TPUCTL_HOME": str(four.home)}
    with subprocess.Popen(
        [*argv, "sh", "-c", "echo here; exec sleep 600"],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for _ in range(4 if workers == "all" else 1):
            assert "here" in process.stdout.readline()
        assert four("local", "preempt", "n3", "--no-notice").code == 0
        assert process.wait() == 31
        assert "error: node 'n3' is PREEMPTED, not READY" in process.stderr.read()
    assert four("node", "delete", "n3", "--yes").code == 0


def test_json_keeps_the_streams_apart(four):
    rows = four(*sh("echo o; echo e >&2; exit 3", "--worker", "3", "-o", "json")).json
    assert rows == [{"worker": 3, "exit_status": 3, "stdout": "o\n", "stderr": "e\n", "lost": None}]


def test_json_of_several_has_a_row_for_each_and_an_error_of_its_own(four):
    result = four(*sh(FAIL_ON_1_AND_3, "-o", "json"))
    assert [(row["worker"], row["exit_status"]) for row in result.json] == [
        (0, 0), (1, 42), (2, 0), (3, 42),
    ]  # fmt: skip
    assert json.loads(result.err)["exit_code"] == result.code == 70


@pytest.mark.parametrize("workers", ["", "3-1", "\u00b2", "0-999999999", "-1", "1-", "x", "4"])
def test_workers_that_are_not_there_are_refused_before_anything_runs(four, workers):
    result = four(*EXEC, "--worker", workers, "--", "true")
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 2


def test_only_failed_runs_where_the_last_one_failed(four):
    four(*sh(FAIL_ON_1_AND_3))
    result = four(*sh("echo again; exit $((TPU_WORKER_ID == 3))", "--only-failed"))
    assert (result.code, sorted(result.out.splitlines())) == (70, ["[1] again", "[3] again"])
    result = four(*sh("echo alone", "--only-failed"))
    assert (result.code, result.out) == (0, "alone\n")
    result = four(*sh("echo nobody", "--only-failed"))
    assert (result.code, result.out) == (12, "")
    assert result.err == (
        "error: no worker of node 'n1' failed in its last exec from here\n"
        "hint: leave out --only-failed\n"
    )


def test_who_failed_is_for_its_owner_alone_and_says_nothing_of_the_command(four):
    four(*sh("exit 1 # secret"))
    (path,) = (four.home / "exec").rglob("n1.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "secret" not in path.read_text()
    assert json.loads(path.read_text())["failed"] == [0, 1, 2, 3]


def test_a_node_made_anew_has_not_failed(four):
    assert four("node", "create", "n2", "-t", "v5litepod-4").code == 0
    assert four("node", "exec", "n2", "--", "false").code == 1
    assert four("node", "delete", "n2", "--yes").code == 0
    assert four("node", "create", "n2", "-t", "v5litepod-4").code == 0
    assert four("node", "exec", "n2", "--only-failed", "--", "true").code == 12
    assert four("node", "delete", "n2", "--yes").code == 0


def test_equal_outputs_are_printed_once(four):
    script = "echo same; echo $((TPU_WORKER_ID == 2)) >&2"
    result = four(*sh(script, "--group"))
    assert result.out == "--- workers 0-3 ---\nsame\n"
    assert result.err == "--- workers 0-1,3 ---\n0\n--- worker 2 ---\n1\n"


def test_a_file_for_each_worker(four, tmp_path):
    directory = tmp_path / "logs" / "today"
    directory.mkdir(parents=True)
    (directory / "1.log").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("mine")
    script = "echo out $TPU_WORKER_ID; echo err >&2"
    result = four(*sh(script, "--output-directory", str(directory)))
    assert (result.code, result.out, result.err) == (0, "", "")
    found = {path.name: sorted(path.read_text().splitlines()) for path in directory.iterdir()}
    assert found == {f"{number}.log": ["err", f"out {number}"] for number in range(4)}
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_directory_that_cannot_be_is_told(four, tmp_path):
    (tmp_path / "file").touch()
    result = four(*sh("true", "--output-directory", str(tmp_path / "file")))
    assert result.code == 60
    assert result.err.startswith("error: cannot make ")


class FullDisk(io.StringIO):
    def write(self, _text):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_cannot_be_printed_here_is_no_failure_of_a_worker(four):
    environ = {"TPUCTL_HOME": str(four.home)}
    runtime = Runtime(out=FullDisk(), err=io.StringIO(), environ=environ)
    assert main([*EXEC, "--", "echo", "hi"], runtime) == 60
    assert runtime.err.getvalue() == (
        "error: cannot print the output of the workers: no space left on device\n"
    )


def test_one_that_does_not_end_holds_nobody_up(four):
    script = "echo here; test $TPU_WORKER_ID != 1 || exec sleep 600"
    result = four(*sh(script, "--timeout", "1s"))
    assert result.code == 70
    assert sorted(result.out.splitlines()) == [f"[{number}] here" for number in range(4)]
    assert "1       -     no end within 1s\n" in result.err
    assert "0,2-3   0     ok\n" in result.err


def test_alone_it_exits_as_timeout_does(four):
    result = four(*sh("sleep 600", "--worker", "0", "--timeout", "0.2s"))
    assert (result.code, result.err) == (124, "worker 0: no end within 0.2s\n")


def test_what_a_command_leaves_behind_does_not_keep_it(four):
    result = four(*sh("sleep 600 & echo $!", "--worker", "0"))
    assert result.code == 0


@pytest.mark.parametrize(
    "options",
    [
        ("--only-failed", "--worker", "0"),
        ("--group", "--output-directory", "x"),
        ("--group", "-o", "yaml"),
        ("--timeout", "soon"),
        ("--dialer", "carrier-pigeon"),
        ("--dialer", "socks5://"),
        ("--dialer", "iap"),
    ],
)
def test_what_cannot_be_meant_is_refused(four, options):
    result = four(*EXEC, *options, "--", "true")
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 2


def test_a_name_like_an_option_is_no_option(four):
    result = four("node", "exec", "--", "--worker", "true")
    assert (result.code, result.out) == (10, "")


@pytest.fixture
def faults(four):
    """`faults(*texts)`: what goes wrong with the workers, until the test's end."""

    def begin(*texts):
        for text in texts:
            assert four("local", "fault", text).code == 0

    yield begin
    four("local", "fault", "--clear")


def test_every_lost_worker_is_named_with_the_reason(four, faults):
    faults("worker n1/1: refuses ssh", "worker n1/3: killed")
    result = four(*EXEC, "--", "echo", "here")
    assert (result.code, sorted(result.out.splitlines())) == (70, ["[0] here", "[2] here"])
    assert result.err.splitlines()[1:4] == [
        "1       -     lost: it ends the connection before the login",
        "3       -     lost: cannot reach 10.128.0.5:22: host unreachable",
        "0,2     0     ok",
    ]


def test_a_lost_worker_alone_is_safe_to_run_again(four, faults):
    faults("worker n1/3: killed")
    result = four(*EXEC, "--worker", "3", "--", "true")
    assert (result.code, result.out) == (40, "")
    assert result.err.startswith("error: worker 3: cannot reach ")
