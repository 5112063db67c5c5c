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
from benchmarks.process_tree import own_cpu_s

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

TARGET_S = 0.5
ROUNDS = 9
TPUCTL = [sys.executable, "-P", "-m", "tpuctl", "capacity", "v5litepod-16"]
PYTHON = [sys.executable, "-c", "print('us-west4-a')"]
ZONE = b"us-west4-a"


def until_shown(argv: Sequence[str], environ: Mapping[str, str], end: bytes = ZONE) -> float:
    """Seconds until a terminal of 120 columns shows a text; the program is waited for."""
    return times_until_shown(argv, environ, end)[0]


def cpu_until_shown(argv: Sequence[str], environ: Mapping[str, str]) -> float:
    """The same of processor time alone, which other programs of the machine disturb less."""
    return times_until_shown(argv, environ, ZONE)[1]


def times_until_shown(
    argv: Sequence[str], environ: Mapping[str, str], end: bytes
) -> tuple[float, float]:
    """Seconds, and seconds of processor time, until a terminal shows a text."""
    ours, theirs = os.openpty()
    began = time.perf_counter()
    with subprocess.Popen(argv, env=environ, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown, seen = b"", None
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the program has ended
                break
            shown += chunk
            if seen is None and end in shown:
                seen = time.perf_counter() - began, own_cpu_s(process.pid)
            if not chunk:
                break
        os.close(ours)
        assert process.wait() == 0
    assert seen is not None, shown
    return seen


def test_the_first_column_is_there_at_once(tmp_path):
    with closing(serve(tmp_path)) as simulator:
        next(simulator)
        environ = {
            **{name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")},
            "TPUCTL_HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "120", "LINES": "40",
        }  # fmt: skip
        found = alternate(TPUCTL, PYTHON, environ=environ, rounds=ROUNDS, measure=until_shown)
        cpu_s = [cpu_until_shown(TPUCTL, environ) for _ in range(ROUNDS)]
        whole_s = [until_shown(TPUCTL, environ, b"next: tpuctl") for _ in range(ROUNDS)]
    keep(
        "capacity: the first column on a terminal",
        f"median {TARGET_S:.1f} s",
        ours_s=found.ours_s,
        python_s=found.peer_s,
        cpu_s=cpu_s,
        whole_s=whole_s,
        ratio=round(found.ratio, 2),
    )
    assert statistics.median(found.ours_s) <= TARGET_S
