"""What metrics cost workers, bucket and whoever watches: `pytest -m benchmark -s`."""

import json
import math
import os
import pty
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from client.cli.job.job_records import T, attempt, job, put, store_of

from benchmarks.measure import keep, peak_resident
from tpuctl.models.job import JobState
from tpuctl.packed_samples import pack

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

WORKERS = 64
SAMPLES_OF_AN_OBJECT = 180
OBJECTS_OF_A_DAY = 48
SAMPLES_OF_A_DAY = SAMPLES_OF_AN_OBJECT * OBJECTS_OF_A_DAY
GIB = 2**30
SAMPLING = """
import resource, sys, time, json
def used(): return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
import threading, socket
before = resident()
from tpuctl.agent.metrics.sampler import Sampler
sampler = Sampler("/")
sampler.sample({})
began = used()
for step in range(500):
    sampler.sample({"step": step, "metrics": {"loss": 2.5}})
print(json.dumps({"cpu_s": used() - began, "bytes": resident() - before}))
"""


def samples(first_s: float, count: int, noise: random.Random) -> list[dict]:
    """Of a busy worker: everything moves that moves on a real one."""
    return [
        {"time_s": first_s + 10 * number + noise.random() / 100, "values": values(number, noise)}
        for number in range(count)
    ]


def values(number: int, noise: random.Random) -> dict[str, float]:
    chips = {
        f"chip.{name}/{chip}": value
        for chip in range(4)
        for name, value in (
            ("duty_cycle_percent", 80 + 10 * noise.random()), ("idle_s", noise.random()),
            ("hbm_used_bytes", 11.5 * GIB), ("hbm_total_bytes", 15.75 * GIB),
            ("hbm_bandwidth_percent", 60 + 10 * noise.random()),
            ("execution_us", 9e4 * noise.random()),
        )
    }  # fmt: skip
    return {
        **chips, "chip.held": 1.0, "host.cpu_percent": 20 + 10 * noise.random(),
        "host.load_1m": 20 + noise.random(),
        "host.memory_used_bytes": 90 * GIB * (1 + noise.random() / 50),
        "host.memory_total_bytes": 188 * GIB, "host.disk_used_bytes": 20 * GIB + 4096 * number,
        "host.disk_total_bytes": 97 * GIB, "host.disk_read_bytes_per_s": 1e5 * noise.random(),
        "host.disk_written_bytes_per_s": 1e6 * noise.random(),
        "host.network_received_bytes_per_s": 1e8 * noise.random(),
        "host.network_sent_bytes_per_s": 1e7 * noise.random(), "program.step": 12.0 * number,
        "program.steps_per_s": 1.2 + noise.random() / 100, "program.step_age_s": noise.random(),
        "program.loss": 2.5 + noise.random(), "program.grad_norm": noise.random(),
        "program.learning_rate": 3e-4 * math.cos(number / 1e4), "program.memory_bytes": 8.5 * GIB,
    }  # fmt: skip


def test_a_day_of_64_workers_takes_little_room_in_the_bucket():
    noise = random.Random(7)
    one = sum(
        len(pack(samples(T + 1800 * number, SAMPLES_OF_AN_OBJECT, noise)))
        for number in range(OBJECTS_OF_A_DAY)
    )
    keep(
        "samples of 64 busy workers with 4 chips in 24 h", "60 MiB, 2 objects a worker and hour",
        mib=round(one * WORKERS / 2**20, 1), bytes_a_sample=round(one / SAMPLES_OF_A_DAY, 1),
        objects_a_worker_and_hour=OBJECTS_OF_A_DAY / 24,
    )  # fmt: skip


def test_a_sample_costs_a_worker_little():
    ran = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}\n{SAMPLING}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(ran.stdout)
    keep(
        "the agent's samples on a worker, one each 10 s", "0.5 % of a core, 4 MiB",
        percent_of_a_core=round(100 * found["cpu_s"] / 500 / 10, 3),
        mib=round(found["bytes"] / 2**20, 1),
    )  # fmt: skip


def test_an_hour_of_64_workers_is_read_soon(cloud, tpuctl):
    store, noise = store_of(cloud.home), random.Random(7)
    put(store, job(state=JobState.SUCCEEDED, attempts=(attempt(worker_count=WORKERS),)))
    for worker in range(WORKERS):
        for half in range(2):
            rows = samples(T + 1800 * half, SAMPLES_OF_AN_OBJECT, noise)
            key = (
                f"tpuctl/jobs/digits-1/metrics/a1/w{worker}/{round(1000 * rows[0]['time_s']):015d}"
            )
            store.put_if_absent(key, pack(rows))
    times = []
    for metric in (("--metric", "loss"), ()):
        argv = [sys.executable, "-P", "-m", "tpuctl", "job", "metrics", "digits-1", *metric]
        environ = {**os.environ, "TPUCTL_HOME": str(cloud.home)}
        began, used = time.perf_counter(), children_cpu_s()
        subprocess.run([*argv, "-o", "csv"], env=environ, stdout=subprocess.DEVNULL, check=True)
        times.append((round(time.perf_counter() - began, 2), round(children_cpu_s() - used, 2)))
    keep(
        "job metrics of one hour of 64 workers as CSV: wall and CPU seconds", "2 s",
        one_metric=times[0], all_metrics=times[1],
    )  # fmt: skip


def test_top_over_64_workers_leaves_the_core_to_others(tmp_path, monkeypatch):
    monkeypatch.setenv("TPUCTL_HOME", str(tmp_path))
    argv = [sys.executable, "-P", "-m", "tpuctl"]
    create = ("node", "create", "big", "-t", "v5litepod-256", "-q")
    subprocess.run([*argv, *create], check=True, stdout=subprocess.DEVNULL)
    try:
        ours, theirs = pty.openpty()
        environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
        began = time.perf_counter()
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        with subprocess.Popen([*argv, "top", "big"], env=environ, **streams) as screen:
            os.read(ours, 1)
            first_s = round(time.perf_counter() - began, 2)
            percent = cpu_percent(screen.pid, ours)
            memory_mib = peak_resident(screen.pid)
            screen.terminate()
        keep(
            "top over 64 workers, each measured every second", "10 % of a core, 100 MiB",
            percent_of_a_core=percent, peak_mib=round(memory_mib, 1), first_byte_s=first_s,
        )  # fmt: skip
    finally:
        subprocess.run([*argv, "local", "down"], check=True, stdout=subprocess.DEVNULL)


def children_cpu_s() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def cpu_percent(pid: int, terminal: int) -> float:
    """The share of a core that a process takes in 30 s, half a minute after its start."""
    used = [0.0, 0.0]
    for index in range(2):
        until = time.monotonic() + 30
        while time.monotonic() < until:
            os.read(terminal, 65536)
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used[index] = sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")
    return round(100 * (used[1] - used[0]) / 30, 1)
