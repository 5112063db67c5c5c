"""How long `job logs` takes for a million lines, and how much memory: `pytest -m benchmark -s`."""

import os
import subprocess
import sys
import time

import pytest
from client.cli.job.job_records import attempt, job, put, store_of

from benchmarks.measure import keep, peak_resident
from tpuctl.models.job import JobState

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

WORKERS = 4
LINES_OF_A_WORKER = 250_000
LINES_OF_A_SEGMENT = 50_000
BLOCK_BYTES = 1 << 20


@pytest.fixture
def home(cloud, tpuctl):
    store = store_of(cloud.home)
    put(store, job(state=JobState.SUCCEEDED, attempts=(attempt(worker_count=WORKERS),)))
    for worker in range(WORKERS):
        at = 0
        for first in range(0, LINES_OF_A_WORKER, LINES_OF_A_SEGMENT):
            numbers = range(first, first + LINES_OF_A_SEGMENT)
            lines = "".join(
                f"{1.7e9 + n / 100:.3f} step={n} loss=2.31 tokens_per_s=51234.5 mfu=0.41\n"
                for n in numbers
            ).encode()
            store.put_if_absent(f"tpuctl/jobs/digits-1/logs/a1/w{worker}/{at:012d}", lines)
            at += len(lines)
    return cloud.home


@pytest.mark.parametrize("options", [(), ("--worker", "0"), ("--grep", "step=.*7 ")], ids=" ".join)
def test_a_million_lines_are_printed_in_bounded_memory(home, options):
    argv = [sys.executable, "-P", "-m", "tpuctl", "job", "logs", "digits-1", *options]
    environ = {**os.environ, "TPUCTL_HOME": str(home)}
    count, most_mib, began = 0, 0.0, time.perf_counter()
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        while block := reader.stdout.read(BLOCK_BYTES):
            count += block.count(b"\n")
            most_mib = max(most_mib, peak_resident(reader.pid))
    keep(
        f"job logs {' '.join(options)}".strip() + " of 1,000,000 lines", "memory does not grow",
        lines=count, seconds=round(time.perf_counter() - began, 2), peak_mib=round(most_mib, 1),
    )  # fmt: skip
    assert reader.returncode == 0
    assert count  # what all workers print is one line
