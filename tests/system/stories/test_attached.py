"""`node ssh` and `node exec` are attached: what runs on the worker ends with the command here."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture
def node(tpuctl):
    tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    return "n1"


@pytest.fixture
def client(cloud):
    """Starts `tpuctl` as a process of its own."""
    started = []

    def start(*argv, **streams):
        environ = {**os.environ, "TPUCTL_HOME": str(cloud.home)}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tpuctl", *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
            **streams,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_ssh_feeds_a_shell_from_a_pipe_and_exits_as_it_did(client, node):
    process = client("node", "ssh", node, stdin=subprocess.PIPE)
    out, err = process.communicate("echo hello from $USER\nexit 3\n", timeout=30)
    assert (process.returncode, out) == (3, "hello from tpuctl\n"), err


def test_ssh_runs_a_command_with_our_input(client, node):
    process = client("node", "ssh", node, "--", "sh", "-c", "cat; exit 4", stdin=subprocess.PIPE)
    out, err = process.communicate("through a pipe", timeout=30)
    assert (process.returncode, out) == (4, "through a pipe"), err


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_remote_command_ends_with_the_client(client, tpuctl, node, ending):
    process = client("node", "exec", node, "--", "sh", "-c", "echo $$; exec sleep 600")
    pid = process.stdout.readline().strip()
    assert is_running(tpuctl, pid)
    process.send_signal(ending)
    process.wait(timeout=10)
    expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
    assert process.returncode == expected[ending]
    deadline = time.monotonic() + 30
    while is_running(tpuctl, pid):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_ctrl_c_stops_watching_and_says_what_goes_on(client, cloud):
    process = client("node", "create", "n2", "-t", "v5litepod-16", "--spot")
    for line in process.stderr:
        if line == "creating node n2\n":
            break
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=10)
    assert process.returncode == 130
    assert rest == (
        "\ninterrupted\n"
        "node 'n2' goes on at 9.71 USD/h when READY; "
        "wait for it: tpuctl node wait n2 --zone us-west4-a; "
        "end it with: tpuctl node delete n2 --zone us-west4-a\n"
    )


@pytest.mark.parametrize("kind", ["nothing", "file"])
def test_ssh_reads_its_commands_from_whatever_it_is_given(client, node, tmp_path, kind):
    script = tmp_path / "script"
    script.write_text("" if kind == "nothing" else "echo from a file; exit 4\n")
    with script.open() as stdin:
        process = client("node", "ssh", node, stdin=stdin)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == ((0, "") if kind == "nothing" else (4, "from a file\n")), (
        err
    )


def test_bytes_of_one_worker_arrive_as_they_are(cloud, node):
    script = "import os; os.write(1, bytes(range(256)) * 4096)"
    argv = ["node", "exec", node, "--", "python3", "-c", script]
    environ = {**os.environ, "TPUCTL_HOME": str(cloud.home)}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tpuctl", *argv], capture_output=True, env=environ, timeout=30
    )
    assert done.returncode == 0
    assert done.stdout == bytes(range(256)) * 4096


def test_a_reader_that_has_seen_enough_is_no_error(client, node):
    process = client("node", "exec", node, "--", "sh", "-c", "while echo line; do :; done")
    assert process.stdout.readline() == "line\n"
    process.stdout.close()
    assert process.wait(timeout=30) == 0
    assert process.stderr.read() == ""


def test_proxies_of_the_environment_are_not_asked(cloud, node):
    dead = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    environ = {**os.environ, **dead, "TPUCTL_HOME": str(cloud.home)}
    for argv, expected in (
        (["node", "list", "-o", "name"], "n1\n"),
        (["job", "list", "-o", "name"], ""),
    ):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tpuctl", *argv],
            capture_output=True,
            text=True,
            env=environ,
            timeout=30,
        )
        assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_a_bug_is_one_line_and_a_file():
    code = "import tpuctl.__main__ as m, tpuctl.cli.app as a; a.main = lambda: 1 / 0; m.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    error, hint = done.stderr.splitlines()
    assert done.returncode == 1
    assert error == "error: a bug in tpuctl: ZeroDivisionError: division by zero"
    report = Path(hint.removeprefix("hint: please report it with "))
    assert "Traceback" in report.read_text()
    report.unlink()


def is_running(tpuctl, pid: str) -> bool:
    """Whether the worker has that process."""
    return tpuctl("node", "exec", "n1", "--", "kill", "-0", pid).code == 0
