"""`node ssh` and `node exec` are attached: what runs on the worker ends with the command here."""

import os
import signal
import subprocess
import sys
import time

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
    out, err = process.communicate("echo hello from $TPU_WORKER_ID\nexit 3\n", timeout=30)
    assert (process.returncode, out) == (3, "hello from 0\n"), err


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_remote_command_ends_with_the_client(client, node, ending):
    process = client("node", "exec", node, "--", "sh", "-c", "echo $$; exec sleep 600")
    pid = int(process.stdout.readline())
    process.send_signal(ending)
    process.wait(timeout=10)
    expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
    assert process.returncode == expected[ending]
    deadline = time.monotonic() + 30
    while is_alive(pid):
        assert time.monotonic() < deadline


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
        "end it with: tpuctl node delete n2 --zone us-west4-a\n"
    )


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
