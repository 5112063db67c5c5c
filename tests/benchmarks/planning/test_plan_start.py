"""`tpuctl plan` over all slices, from start to table, beside the import of numpy alone."""

import sys

import pytest

from benchmarks.measure import alternate, cpu_time, keep

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

ROUNDS = 11
TARGET_S = 0.4
NUMPY = [sys.executable, "-c", "import numpy"]
RUN = ("plan", "--model", "llama-3-8b", "--tokens", "1T", "--seq", "8192")
PLAN = [sys.executable, "-P", "-m", "tpuctl", *RUN, "--quiet"]


@pytest.mark.parametrize("what", ["wall", "cpu"])
def test_a_plan_over_all_slices(tmp_path, what):
    """CPU time is kept, too: other programs of the machine disturb it less."""
    environ = {"TPUCTL_HOME": str(tmp_path)}
    measure = cpu_time if what == "cpu" else None
    found = alternate(PLAN, NUMPY, environ=environ, rounds=ROUNDS, measure=measure)
    keep(
        f"plan: llama-3-8b over all slices, {what} time",
        f"median {TARGET_S:.3f} s",
        ours_s=found.ours_s,
        numpy_s=found.peer_s,
        ratio=round(found.ratio, 2),
    )
