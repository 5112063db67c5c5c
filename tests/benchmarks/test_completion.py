"""A TAB: from the shell's question to its answer, with the names of a thousand nodes at hand."""

import os
import statistics
import sys
import time

import pytest

from benchmarks.measure import alternate, keep
from tpuctl.config import Config, Context, save
from tpuctl.operations.completion import name_cache

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

ROUNDS = 21
TARGET_S = 0.15
PYTHON = [sys.executable, "-c", "pass"]
TPUCTL = [sys.executable, "-P", "-m", "tpuctl"]


@pytest.mark.parametrize(
    "line",
    [
        "tpuctl node describe n77",
        "tpuctl node create n -t v5litepod-1",
        "tpuctl data list gs://pails/run-5/",
        "tpuctl job logs di",
    ],
)
def test_completion_of_a_value(tmp_path, line):
    home = tmp_path / "home"
    save(home, Config("lab", {"lab": Context("lab", "p", "us-west4-a", "pails")}))
    lists = {
        "node": [(f"n{number}", "us-west4-a READY", 4) for number in range(1000)],
        "job": [(f"digits-{number:06x}", "digits RUNNING", 4) for number in range(1000)],
        "object gs://pails/": [
            (f"gs://pails/run-{number % 30}/{number}", "", 0) for number in range(999)
        ],
    }
    for key, rows in lists.items():  # ahead by a minute: nothing is listed while it is measured
        known = [name_cache.KnownName(*row) for row in rows]
        name_cache.write_list(home, "lab", key, known, time.time())
    (home / "completion" / "lab.lock").touch()
    far_s = time.time() + 3600
    os.utime(home / "completion" / "lab.lock", (far_s, far_s))
    environ = {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")},
        "TPUCTL_HOME": str(home),
        "_TPUCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    found = alternate(TPUCTL, PYTHON, environ=environ, rounds=ROUNDS)
    keep(
        f"completion: {line}",
        f"median {TARGET_S:.3f} s",
        ours_s=found.ours_s,
        python_s=found.peer_s,
        ratio=round(found.ratio, 2),
    )
    assert statistics.median(found.ours_s) <= TARGET_S
