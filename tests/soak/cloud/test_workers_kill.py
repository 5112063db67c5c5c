"""Workers in namespaces and a simulator that is killed: nothing of a node outlives it for long."""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("kill_workers.py")
KINDS = (
    "failed_restarts",
    "processes",
    "namespaces",
    "mounts",
    "links",
    "directories",
    "tracebacks",
)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_200_kills_leave_nothing_behind(namespaces, tmp_path):
    found = killed(tmp_path, rounds=200, seed=time.time_ns())
    gone_s = found["gone_s"]
    print(f"\nafter a kill all was gone in {statistics.median(gone_s)} s, at most {max(gone_s)} s")
    assert {kind: found[kind] for kind in KINDS} == dict.fromkeys(KINDS, 0)


def killed(directory, *, rounds, seed):
    """So many lives and deaths of a simulator; what they left behind."""
    print(f"seed {seed}")
    argv = [sys.executable, str(DRIVER), str(directory), str(rounds), str(seed)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)
