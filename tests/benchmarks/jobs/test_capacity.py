"""`tpuctl capacity` on a terminal: when its first column is there, and when all of it is."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing

import pytest
from clouds import serve

from benchmarks.measure import alternate, keep

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

TARGET_S = 0.5
ROUNDS = 15
TPUCTL = [sys.executable, "-P", "-m", "tpuctl", "capacity", "v5litepod-16"]
PYTHON = [sys.executable, "-c", "print('us-west4-a')"]
ZONE = b"us-west4-a"


def until_shown(argv: Sequence[str], environ: Mapping[str, str], end: bytes = ZONE) -> float:
    """Seconds until a terminal of 120 columns shows a text; the program is waited for."""
    ours, theirs = os.openpty()
    began = time.perf_counter()
    with subprocess.Popen(argv, env=environ, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown, seen_s = b"", None
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the program has ended
                break
            shown += chunk
            if seen_s is None and end in shown:
                seen_s = time.perf_counter() - began
            if not chunk:
                break
        os.close(ours)
        assert process.wait() == 0
    assert seen_s is not None, shown
    return seen_s


def test_the_first_column_is_there_at_once(tmp_path):
    with closing(serve(tmp_path)) as simulator:
        next(simulator)
        environ = {
            **{name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")},
            "TPUCTL_HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "120", "LINES": "40",
        }  # fmt: skip
        found = alternate(TPUCTL, PYTHON, environ=environ, rounds=ROUNDS, measure=until_shown)
        whole_s = [until_shown(TPUCTL, environ, b"next: tpuctl") for _ in range(7)]
    keep(
        "capacity: the first column on a terminal",
        f"median {TARGET_S:.1f} s",
        ours_s=found.ours_s,
        python_s=found.peer_s,
        whole_s=whole_s,
        ratio=round(found.ratio, 2),
    )
    assert statistics.median(found.ours_s) <= TARGET_S
