"""A command with its client's own input ends with its client: no SSH server sees to that."""

import signal
import subprocess

import pytest

from tpuctl.api.ssh.remote_command import HEARTBEAT, command_and_watcher


@pytest.fixture
def session():
    """Starts a command, and what watches over it, as an SSH server does."""
    started = []

    def start(script):
        for line in reversed(command_and_watcher(["sh", "-c", script])):
            process = subprocess.Popen(
                ["/bin/sh", "-c", line],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
            started.append(process)
            if len(started) == 1:
                process.stdin.write(HEARTBEAT)
                assert process.stdout.readline() == b"ready\n"
        watching, command = started
        return command, watching

    yield start
    for process in reversed(started):  # the watching one ends by itself, and leaves nothing
        process.stdin.close()
        process.stdout.close()
        if process is not started[0]:
            process.kill()
        process.wait()


def test_it_reads_what_its_client_gives(session):
    command, _ = session("cat; exit 4")
    out, _ = command.communicate(b"through a pipe")
    assert (out, command.returncode) == (b"through a pipe", 4)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("echo started; exec sleep 600", -signal.SIGHUP),
        ("trap '' HUP; echo started; sleep 600; sleep 600", -signal.SIGKILL),
    ],
)
def test_it_ends_when_its_client_is_gone(session, script, status):
    command, watching = session(script)
    assert command.stdout.readline() == b"started\n"
    watching.stdin.close()
    assert command.wait() == status


def test_what_it_left_behind_stays(session):
    command, watching = session("sleep 600 </dev/null >/dev/null 2>&1 & echo $!")
    left = int(command.stdout.readline())
    assert command.wait() == 0
    watching.stdin.close()
    assert watching.wait() == 0
    subprocess.run(["kill", "-9", str(left)], check=True)  # which would fail
