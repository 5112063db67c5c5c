"""`tpuctl node ssh` on a terminal: its size, its keys, its exit status."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from clouds import Runner

from client.cli.requests.own_slice import own_slice


@pytest.fixture(scope="module")
def terminals(tmp_path_factory) -> Iterator[Runner]:
    """`tpuctl` with the node n1."""
    yield from own_slice(tmp_path_factory.mktemp("ssh"), "process")


class Screen:
    """A terminal of 80 x 24, with `tpuctl` in front of it."""

    def __init__(self, home: Path, *argv: str) -> None:
        self.ours, theirs = pty.openpty()
        self.resize(80, 24)
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tpuctl", "node", "ssh", "n1", *argv],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TPUCTL_HOME": str(home), "TERM": "vt100"},
        )
        self.theirs = theirs
        self.seen = b""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: bytes) -> None:
        while text not in self.seen:
            self.seen += os.read(self.ours, 4096)

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def screen(terminals):
    shown = []

    def show(*argv: str) -> Screen:
        shown.append(Screen(terminals.home, *argv))
        return shown[-1]

    yield show
    for each in shown:
        each.close()


def test_a_command_has_our_terminal_and_its_size(screen):
    shown = screen(
        "--worker", "1", "--", "sh", "-c", "echo $TPU_WORKER_ID $TERM; stty size; exit 9"
    )
    shown.until(b"24 80")
    assert shown.process.wait() == 9
    assert b"1 vt100\r\n" in shown.seen


def test_it_learns_of_another_size(screen):
    script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"
    shown = screen("--", "sh", "-c", script)
    shown.until(b"ready")
    shown.resize(100, 40)
    shown.process.send_signal(signal.SIGWINCH)
    shown.until(b"40 100")
    assert shown.process.wait() == 0


def test_ctrl_c_goes_to_the_other_side_and_the_terminal_is_as_before(screen):
    shown = screen("--", "sh", "-c", "trap 'echo caught; exit 5' INT; echo ready; sleep 600 & wait")
    shown.until(b"ready")
    shown.type(b"\x03")
    shown.until(b"caught")
    assert shown.process.wait() == 5
    assert termios.tcgetattr(shown.theirs) == shown.before


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["cd / && pwd; echo ${BASH_VERSION:+bash}; exit 9"], (9, b"/\nbash\n")),
        (["printf", "%s", b"$HOME  \xff"], (0, b"$HOME  \xff")),
    ],
)
def test_one_word_is_a_line_for_the_shell_as_ssh_has_it(terminals, argv, expected):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tpuctl", "node", "ssh", "n1", "--", *argv],
        env={**os.environ, "TPUCTL_HOME": str(terminals.home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    assert (done.returncode, done.stdout) == expected


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["--worker=all", "--command=id"], "run: tpuctl node exec NAME --command LINE"),
        (["--tunnel-through-iap"], "write --dialer iap"),
        (
            ["--", "-L", "8888:localhost:8888"],
            "for ports run: tpuctl node forward n1 [LOCAL:]REMOTE",
        ),
        (["--frobnicate"], "run: tpuctl node ssh --help"),
    ],
)
def test_habits_from_elsewhere_are_told_how_it_is_said_here(terminals, argv, hint):
    result = terminals("node", "ssh", "n1", *argv)
    assert (result.code, result.out) == (2, "")
    assert f"\nhint: {hint}" in result.err


def test_several_workers_are_too_many(terminals):
    result = terminals("node", "ssh", "n1", "--worker", "0-1")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ssh goes to one worker\n")


def test_openssh_reaches_every_worker_by_the_block_that_is_printed(terminals, tmp_path):
    printed = terminals("node", "ssh-config", "n1")
    assert printed.code == 0, printed.err
    blocks = printed.out.split("Host ")[1:]
    assert [block.split("\n")[0] for block in blocks] == ["n1 n1-0", "n1-1", "n1-2", "n1-3"]
    (tmp_path / "config").write_text(printed.out)
    for host, worker_id in (("n1", "0"), ("n1-2", "2")):
        argv = ["ssh", "-F", str(tmp_path / "config"), "-o", "BatchMode=yes", host]
        done = subprocess.run(
            [*argv, "echo $TPU_WORKER_ID; cat; exit 7"],
            input=b"typed " * 50_000, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (7, b"")
        assert done.stdout.removeprefix(worker_id.encode()).strip() == b"typed ".strip() + (
            b" typed" * 49_999
        )


def test_the_hosts_of_openssh_as_json(terminals):
    rows = terminals("node", "ssh-config", "n1", "--dialer", "internal", "-o", "json").json
    assert [row["name"] for row in rows] == ["n1-0", "n1-1", "n1-2", "n1-3"]
    assert list(rows[0]["settings"]) == [
        "HostName", "User", "IdentityFile", "IdentitiesOnly", "UserKnownHostsFile",
        "HostKeyAlias", "StrictHostKeyChecking", "ServerAliveInterval",
    ]  # fmt: skip
    jump = ("node", "ssh-config", "n1", "--dialer", "jump://ada@bastion:2200", "-o", "json")
    assert terminals(*jump).json[3]["settings"]["ProxyJump"] == "ada@bastion:2200"
