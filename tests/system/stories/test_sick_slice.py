"""A slice each of whose workers has another trouble: every view names it, and nobody else.

It takes as long as the rules want: half an hour and a little, on a machine that does nothing else.
"""

import json
import time

import pytest

from system.stories.gang_cloud import gangs, is_running

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

PROGRAM = """
import itertools, os, time
number = int(os.environ["TPUCTL_WORKER_ID"])
if number == 5:
    time.sleep(7200)
import jax
import jax.numpy as jnp
x = jnp.ones((128, 128))
work = jax.jit(lambda x: x @ x / 128)
for step in itertools.count(1):
    until = time.monotonic() + (2 if number == 2 else 1)
    work(x).block_until_ready()
    if number == 3 and step == 20:
        time.sleep(7200)
    time.sleep(max(0, until - time.monotonic()))
    print(f"step={step} loss={1 / step:.4f}", flush=True)
"""
"""Worker 2 is slow, 3 hangs, 5 does not use its chips; the disk of 4 is full, by a fault."""
STARVED = """
import os, time
import jax
jax.devices()
for _ in range(os.cpu_count()):
    if os.fork() == 0:
        while True:
            pass
for step in range(1, 7200):
    time.sleep(1)
    print(f"step={step}", flush=True)
"""
"""Its chips wait, while all processors are busy with something else."""
EXPECTED = {"straggler": [2], "hung": [3], "disk-full": [4], "idle": [5]}
WELL_S, SICK_S, STARVED_S = 300, 33 * 60, 240


@pytest.fixture(scope="module")
def sick(tmp_path_factory, namespaces):
    with gangs(tmp_path_factory.mktemp("sick"), "namespace") as here:
        yield here


def named(findings: list[dict]) -> dict[str, list[int]]:
    return {each["name"]: each["workers"] for each in findings}


def explained(here, name: str) -> dict[str, list[int]]:
    return named(here.tpuctl("explain", here.jobs[name], "-o", "json").json)


def of_top(here, name: str) -> dict[str, list[int]]:
    """What the rows of its workers say is wrong with them."""
    found: dict[str, list[int]] = {}
    for row in json.loads(here.tpuctl("top", here.jobs[name], "--once", "-o", "json").out):
        for finding in row["findings"]:
            found.setdefault(finding, []).append(row["worker"])
    return found


def started(here, name: str, workers: int, program: str) -> None:
    (folder := here.cloud.home / name).mkdir()
    (folder / "train.py").write_text(program)
    here.submit(name, workers, "python3 train.py", workdir=str(folder))
    here.until(name, is_running)


def test_each_trouble_of_a_slice_is_told_of_its_worker_by_every_view(sick):
    started(sick, "sick", 8, PROGRAM)
    sick.fault(f"worker {sick.jobs['sick']}-a1/4: disk full")
    time.sleep(SICK_S)
    assert explained(sick, "sick") == EXPECTED
    assert of_top(sick, "sick") == EXPECTED
    stored = sick.tpuctl("job", "describe", sick.jobs["sick"], "-o", "json").json
    assert {"straggler", "hung", "idle"} <= named(stored["findings"]).keys()
    assert sick.tpuctl("job", "cancel", sick.jobs["sick"]).code == 0


def test_a_host_that_starves_its_chips_is_told(sick):
    started(sick, "starved", 1, STARVED)
    time.sleep(STARVED_S)
    assert explained(sick, "starved") == {"input-bound": [0]}
    assert of_top(sick, "starved") == {"input-bound": [0]}
    assert sick.tpuctl("job", "cancel", sick.jobs["starved"]).code == 0


def test_healthy_runs_have_no_finding(sick):
    healthy = PROGRAM.replace("number == 5", "False").replace("number == 3", "False")
    healthy = healthy.replace("2 if number == 2 else 1", "1")
    for number in range(20):
        started(sick, f"well{number}", 1 + number % 2, healthy)
    time.sleep(WELL_S)
    for number in range(20):
        assert explained(sick, f"well{number}") == {}
        assert of_top(sick, f"well{number}") == {}
