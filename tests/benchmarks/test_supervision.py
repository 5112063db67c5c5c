"""What 20 running jobs cost their supervisor: memory, processor, writes to the bucket."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.measure import keep, peak_resident, resident
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs.leases import lease
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store
from tpuctl.jobs.submit.job_submission import Submitter, default_owner, submit
from tpuctl.models.job import JobSpec, Resources
from tpuctl.operations.local import local_cloud

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

JOBS = 20
WATCHED_S = 40.0
SETTLING_S = 20.0
"""After the last job has begun: its first lines and steps are news."""
PROGRAM = 'echo "step=1"; exec sleep 100000'
SCENARIO = "provisioning_delay_s: 0.2\nacceptance_delay_s: 0.1\ndeletion_delay_s: 0.1\n"
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def home(tmp_path):
    scenario = tmp_path / "quick.yaml"
    scenario.write_text(SCENARIO)
    local_cloud.up(tmp_path, "local", local_cloud.SimulatorOptions(scenario=scenario))
    yield tmp_path
    local_cloud.down(tmp_path, "local")


@pytest.fixture
def supervisor(home):
    argv = [sys.executable, "-P", "-m", "tpuctl", "supervisor", "run", "--stay"]
    environ = {**os.environ, "TPUCTL_HOME": str(home)}
    with subprocess.Popen(argv, env=environ, stderr=subprocess.DEVNULL) as process:
        while supervisor_lock.holder_pid(home, "local") != process.pid:
            time.sleep(0.1)
        yield process.pid
        process.terminate()


def test_twenty_jobs_that_run(home, supervisor):
    runtime = Runtime(environ={"TPUCTL_HOME": str(home)})
    outside = runtime.outside
    jobs = [submitted(outside, number) for number in range(JOBS)]
    supervisor_lock.wake(home, "local")
    while not all(runs(outside, job_id) for job_id in jobs):
        time.sleep(1.0)
    time.sleep(SETTLING_S)

    before, began_s, used_s = generations(outside), time.monotonic(), processor_s(supervisor)
    seen = Counter()
    while time.monotonic() - began_s < WATCHED_S:
        time.sleep(1.0)
        now = generations(outside)
        seen.update(key for key in now if now[key] != before.get(key))
        before = now
    took_s = time.monotonic() - began_s
    share = (processor_s(supervisor) - used_s) / took_s
    keep(
        f"supervisor of {JOBS} running jobs",
        "at most 150 MiB, 10 % of a core, 2 writes a minute per job when nothing changes",
        resident_mib=round(resident(supervisor), 1),
        peak_mib=round(peak_resident(supervisor), 1),
        core_percent=round(100 * share, 2),
        writes_per_minute_and_job=round(sum(seen.values()) / JOBS * 60 / took_s, 2),
        watched_s=round(took_s, 1),
    )
    for job_id in jobs:
        record_store.request_cancel(outside.store, job_id, time.time())
        lease.notify_holder(outside.store, job_id)
    while next(iter(outside.store.list(lease.LEASES)), None):
        time.sleep(0.5)
    runtime.close()
    assert share > 0.0


def submitted(outside, number: int) -> str:
    spec = JobSpec(f"one-{number}", PROGRAM, resources=Resources("v5litepod-1"))
    return submit(spec, outside, Submitter(default_owner()), now_s=time.time()).job_id


def runs(outside, job_id: str) -> bool:
    found = record_store.load(outside.store, job_id).record
    return found.state == "RUNNING" and found.attempt.workers[0].phase == "running"


def generations(outside) -> dict[str, int]:
    """Of every object that the service keeps for jobs; none is written twice within a second."""
    return {entry.key: entry.generation for entry in outside.store.list("tpuctl/")}


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
