"""A client, a fetcher or a slice that goes away while data is staged: the rest is delivered."""

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from client.cli.node.four_workers import BUCKET, bucket, on_workers, slice_of_four
from tpuctl.agent.data import target_tree

LOOK_S = 0.3
"""A look is a process on a worker."""
OF_FETCHERS = r"""
for each in $(grep -lzs "^HOME=$HOME\$" /proc/[0-9]*/environ); do
  pid=$(basename ${each%%/environ})
  if tr '\0' ' ' < /proc/$pid/cmdline | grep -q '[.]pyz'; then %s $pid; fi
done 2>/dev/null
"""
"""Does something with the processes of a worker's own that a push started."""
LIST, KILL = OF_FETCHERS % "echo", OF_FETCHERS % "kill -9"


@pytest.fixture(scope="module")
def staging(manual_cloud):
    """`tpuctl` with one slice of four workers; the last test takes it away."""
    return slice_of_four(manual_cloud)


def test_a_client_that_is_killed_takes_its_fetchers_with_it(staging, manual_cloud):
    with stalled(staging, manual_cloud, "killed") as client:
        client.kill()
        client.wait()
        eventually(lambda: on_workers(staging, LIST, "1") == [""])


def test_a_fetcher_that_is_killed_on_its_worker_fails_alone(staging, manual_cloud):
    with stalled(staging, manual_cloud, "murdered") as client:
        on_workers(staging, KILL, "1")
        out, err = client.communicate(timeout=60)
        assert client.returncode == 70, err
        assert [row.split("\t")[1] for row in out.splitlines()[1:]] == [
            "DONE",
            "FAILED",
            "DONE",
            "DONE",
        ]
        assert err.splitlines()[-2] == "error: 1 of 4 workers failed: 1"


def test_a_slice_that_is_preempted_while_it_is_staged_is_exit_31(staging, manual_cloud):
    with stalled(staging, manual_cloud, "preempted") as client:
        eventually(lambda: on_workers(staging, "cat stalled/preempted", "0,2,3") == ["x"] * 3)
        assert staging("local", "preempt", "n1", "--no-notice").code == 0
        out, err = client.communicate(timeout=60)
        assert client.returncode == 31, err
        states = dict(row.split("\t")[:2] for row in out.splitlines()[1:])
        assert states.pop("1") == "LOST"
        assert set(states.values()) <= {"DONE", "LOST"}  # who had told in time is DONE


class stalled:
    """A push in a process of its own that waits on worker 1 for a file somebody else writes."""

    def __init__(self, tpuctl, cloud, name):
        blob = bucket(cloud).blob(f"stalled/{name}")
        blob.upload_from_string(b"x")
        text = f"/storage/v1/b/local-bucket/o/stalled/{name}#{blob.generation}"
        version = hashlib.sha256(text.encode()).hexdigest()[:24]
        part = target_tree.unfinished_name(name, version)
        (home,) = on_workers(tpuctl, "mkdir -p stalled && pwd", "1")
        self.part = Path(home.strip(), "stalled", part)
        self.name = name
        self.tpuctl = tpuctl
        self.environ = {**os.environ, "TPUCTL_HOME": str(cloud.home)}
        self.written = ExitStack()

    def __enter__(self):
        file = self.written.enter_context(self.part.open("w"))
        fcntl.flock(file, fcntl.LOCK_EX)
        source = f"{BUCKET}/stalled/{self.name}"
        self.client = subprocess.Popen(
            [sys.executable, "-P", "-m", "tpuctl", "data", "push", source, "worker:n1:stalled/"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ,
        )
        eventually(lambda: on_workers(self.tpuctl, LIST, "1") != [""])
        return self.client

    def __exit__(self, *_):
        self.client.kill()
        self.client.communicate()
        self.written.close()


def eventually(holds, within_s=30.0):
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(LOOK_S)
