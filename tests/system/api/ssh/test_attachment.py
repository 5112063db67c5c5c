"""The line that a worker's login shell runs: argv as it is, and an end with its client."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tpuctl.api.ssh.remote_command import HEARTBEAT, heartbeat_command
from tpuctl.errors import UsageError

ODD = ["", "a b", "'\"\\", "line\nline", "$(false)`false`$HOME*", "-n", "é\x01\x7f"]
ODD += [os.fsdecode(data) for data in (b"\xff", b"%d\\n\xff'$x\n\n", bytes(range(1, 256)))]


SHELLS = ["bash", "sh", "sh without bash"]


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    """Starts a line in a login shell, as an SSH server does; reaped as soon as it ends."""
    with login_shell(request.param, tmp_path) as start:
        yield start


@contextmanager
def login_shell(kind, tmp_path):
    name, *without = kind.split(maxsplit=1)
    environ = dict(os.environ)
    if without:
        for command in ("sh", "sleep", "printf", "cat"):
            (tmp_path / command).symlink_to(f"/bin/{command}")
        environ["PATH"] = str(tmp_path)
    started = []

    def start(*argv):
        process = subprocess.Popen(
            [f"/bin/{name}", "-c", heartbeat_command(argv)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=environ,
            bufsize=0,
        )
        threading.Thread(target=process.wait, daemon=True).start()
        started.append(process)
        with suppress(BrokenPipeError):  # it has ended already
            process.stdin.write(HEARTBEAT)
        return process

    yield start
    for process in started:
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


def end_of(process):
    """Standard output, standard error and exit status of one whose client stays to its end."""
    out = process.stdout.read()
    err = process.stderr.read()
    return out, err, process.wait()


def test_argv_arrives_as_it_is(shell):
    out, err, status = end_of(shell("/usr/bin/printf", "%s\\0", *ODD))
    expected = b"".join(os.fsencode(word) + b"\0" for word in ODD)
    assert (out, err, status) == (expected, b"", 0)


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 42", 42), ("kill -9 $$", -signal.SIGKILL), ("kill -TERM 0", -signal.SIGTERM)],
)
def test_it_ends_as_the_command_does(shell, script, status):
    assert end_of(shell("sh", "-c", script)) == (b"", b"", status)


@pytest.mark.parametrize("command", ["exit", "eval", "no-such-command", ""])
def test_builtins_of_the_shell_are_no_commands(shell, command):
    out, err, status = end_of(shell(command, "echo injected"))
    assert (out, status in (126, 127)) == (b"", True)
    assert err


def test_it_reads_nothing(shell):
    assert end_of(shell("cat")) == (b"", b"", 0)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("sleep 600", -signal.SIGHUP),
        ("sleep 600 & sleep 600", -signal.SIGHUP),
    ],
)
def test_the_group_ends_with_its_client(shell, script, status):
    process = shell("sh", "-c", f"echo started; {script}")
    assert process.stdout.readline() == b"started\n"
    process.stdin.close()
    assert process.stdout.read() == b""
    assert process.wait() == status


def test_one_that_ignores_it_is_killed(tmp_path):
    argv = ("sh", "-c", "trap '' HUP; echo started; sleep 600")
    with ExitStack() as shells:  # at once: each has three seconds
        kinds = [shells.enter_context(login_shell(kind, tmp_path)) for kind in SHELLS]
        processes = [start(*argv) for start in kinds]
        for process in processes:
            assert process.stdout.readline() == b"started\n"
            process.stdin.close()
        assert [process.wait() for process in processes] == [-signal.SIGKILL] * 3


def test_so_does_what_the_command_left_behind(shell):
    process = shell("sh", "-c", "sleep 600 & echo started")
    assert process.stdout.readline() == b"started\n"
    assert process.wait() == 0
    process.stdin.close()
    assert process.stdout.read() == b""


def test_silence_ends_it_too():
    line = heartbeat_command(["sleep", "600"])
    assert "-t 25" in line
    process = subprocess.Popen(
        ["/bin/bash", "-c", line.replace("-t 25", "-t 1")],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.wait() == -signal.SIGHUP
    process.stdin.close()


def test_a_command_that_waits_for_all_its_children_has_none(shell):
    script = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')"
    out, _, status = end_of(shell(sys.executable, "-c", script))
    assert (out, status) == (b"none\n", 0)


def test_a_nul_is_refused():
    with pytest.raises(UsageError, match="NUL"):
        heartbeat_command(["echo", "a\0b"])
