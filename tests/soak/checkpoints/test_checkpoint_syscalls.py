"""kill -9 at every system call with which a save changes a directory.

What was committed stands, what was being written aside is swept, and the next run saves. A few of
the calls in every run, all of them in the soak.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from soak.checkpoints.checkpoint_gangs import SOAK, nursery, place
from soak.checkpoints.checkpoint_judge import go_on, look

CALLS = (
    "write", "pwrite64", "ftruncate", "fsync", "rename", "unlink", "utimensat", "mkdir", "rmdir",
    "flock",
)  # fmt: skip
WAYS = {
    "waiting": {"wait": True, "file_bytes": 10**6},
    "beside training": {"file_bytes": 5000},
}
"""All in one thread but the deletions, or several files at once in threads of their own."""
MOST = 120
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="it takes strace")


@pytest.fixture(scope="module")
def later_births(tmp_path_factory):
    with nursery(tmp_path_factory.mktemp("births")) as found:
        yield found


@pytest.fixture(scope="module")
def traced_place(tmp_path_factory):
    with place("directory", tmp_path_factory.mktemp("traced")) as found:
        yield found


def is_killed(checkpoints, way, call, number):
    """Save two more steps; whether the program ended at that call of one of its threads."""
    (spec,) = checkpoints.gang(2, 1, 2, out=f"{checkpoints.url}.json", **WAYS[way])
    kill = ["-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={number}"]
    command = ["strace", "-f", "-qq", "-o", "/dev/null", *kill]
    program = [sys.executable, str(SOAK / "checkpoint_program.py"), json.dumps(spec)]
    code = subprocess.run([*command, *program], cwd=SOAK.parents[1], check=False).returncode
    assert code in (0, *KILLED)
    return code != 0


def struck(births, checkpoints, way, call, number):
    """What is wrong after a kill there; None when there was no such call."""
    births.run(checkpoints.gang(1, 1, 2))
    if not is_killed(checkpoints, way, call, number):
        return None
    wrong = look(checkpoints) + go_on(births, checkpoints, 1, random.Random(number))
    aside = list(Path(checkpoints.url, ".tpuctl-store", "writing").iterdir())
    if aside:
        wrong.append(f"{len(aside)} files were not swept")
    return [f"{way} {call} {number}: {each}" for each in wrong]


@pytest.mark.parametrize(("call", "number"), [("fsync", 9), ("rename", 5)])
def test_killed_at_a_system_call(later_births, traced_place, call, number):
    assert struck(later_births, traced_place.new(), "waiting", call, number) == []


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_killed_at_every_system_call(later_births, traced_place):
    points, wrong = Counter(), []
    began_s = time.monotonic()
    for way, call in product(WAYS, CALLS):
        for number in range(1, MOST):
            found = struck(later_births, traced_place.new(), way, call, number)
            if found is None:
                break
            points[call] += 1
            wrong += found
    took_s = time.monotonic() - began_s
    print(f"\n{points.total()} system calls in {took_s:.0f} s {dict(points)}: {wrong}")
    assert wrong == []
    assert points.total() >= 100
