"""`node cp`, `workers` and `free` on workers that are hosts of their own, and in trouble."""

import os
import subprocess
import sys

import pytest

from client.cli.node.four_workers import on_workers
from client.cli.requests.own_slice import own_slice

HOLD = """
import fcntl, time
lock = open("/tmp/libtpu_lockfile", "w")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def hosts(namespaces, tmp_path_factory):
    """`tpuctl` with one slice of four workers that all tests of this file share."""
    yield from own_slice(tmp_path_factory.mktemp("home"), "namespace")


@pytest.fixture
def trouble(hosts):
    """`trouble(text)` lets that go wrong until the test is over."""
    yield lambda text: hosts("local", "fault", text)
    hosts("local", "fault", "--clear")


def test_a_tree_arrives_and_comes_back(hosts, tmp_path):
    (tmp_path / "t" / "deep").mkdir(parents=True)
    (tmp_path / "t" / "deep" / "x").write_text("x")
    (tmp_path / "t" / "link").symlink_to("deep/x")
    assert hosts("node", "cp", "-r", str(tmp_path / "t"), "n1:").code == 0
    assert on_workers(hosts, "cat t/link; uname -n | tail -c 2") == [f"x{n}\n" for n in range(4)]
    result = hosts("node", "cp", "-r", "n1:t", str(tmp_path / "back"), "--worker", "all")
    assert result.code == 0, result.err
    assert (tmp_path / "back" / "3" / "t" / "link").read_text() == "x"


def test_a_full_disk_is_named_with_its_worker(hosts, trouble, tmp_path):
    (tmp_path / "a").write_bytes(os.urandom(2**20))
    (tmp_path / "empty").touch()
    trouble("worker n1/2: disk full")
    paths = (str(tmp_path / "empty"), str(tmp_path / "a"))
    result = hosts("node", "cp", *paths, "n1:", "-o", "json")
    assert result.code == 70
    assert [row["state"] for row in result.json] == ["DONE", "DONE", "FAILED", "DONE"]
    assert "a: cannot write to /" in result.json[2]["error"]
    assert result.json[2]["files_copied"] == 1
    assert result.err.startswith("warning: worker 2: a: not copied: cannot write to /home/")
    assert result.err.splitlines()[0].endswith(": no space left on device")
    assert on_workers(hosts, "ls -A | grep -c part- || true", "2") == ["0\n"]


def test_a_worker_that_does_not_answer_is_named_and_why(hosts, trouble):
    trouble("worker n1/1: refuses ssh")
    result = hosts("node", "workers", "n1", "--check", "-o", "json")
    assert result.code == 70
    assert [row["ssh"] == "yes" for row in result.json] == [True, False, True, True]
    why = result.json[1]["ssh"]
    assert why == "it ends the connection before the login"
    assert "1 of 4 workers do not answer: 1" in result.err
    result = hosts("node", "free", "n1")
    assert result.code == 70
    assert result.rows[1] == ["1", "LOST", "-", "-", "-", why]
    assert result.err.splitlines() == [
        f"warning: worker 1: {why}",
        "error: 1 of 4 workers failed: 1",
        "hint: run the same command again; or run: tpuctl node workers n1 --check",
    ]


def test_the_holder_of_the_chips_is_found_and_ended(hosts):
    argv = ["node", "exec", "n1", "--worker", "3", "--", "python3", "-c", HOLD, "train"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tpuctl", *argv],
        env={**os.environ, "TPUCTL_HOME": str(hosts.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout.readline() == b"held\n"
    result = hosts("node", "free", "n1", "--yes", "-o", "json")
    assert result.code == 0, result.err
    assert [len(row["ended"]) for row in result.json] == [0, 0, 0, 1]
    assert result.json[3]["locks_removed"] == ["/tmp/libtpu_lockfile"]
    process.communicate(timeout=30)
    assert process.returncode == 128 + 15
