"""A slice each of whose workers has another trouble: every view names it, and nobody else.

It takes as long as the rules want: half an hour and a little, on a machine that does nothing else.
tests/client/cli/test_sick_slices.py has the same by samples that are written down.
"""

import json
import re
import time

import pytest
from client.cli.dashboard.serving import Browser, findings_of, served

from system.stories.gang_cloud import gangs, is_running

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

PROGRAM = """
import itertools, os, time
number = int(os.environ["TPUCTL_WORKER_ID"])
if number == 5:
    time.sleep(7200)
if number == 6:
    from localsim_chips import holding
    holding.hold(lambda: holding.Usage([31 * 2**30 + 2**29] * 4, 0.5))
    work = None
else:
    import jax
    import jax.numpy as jnp
    x = jnp.ones((128, 128))
    work = jax.jit(lambda x: x @ x / 128)
for step in itertools.count(1):
    until = time.monotonic() + (2 if number == 2 else 1)
    if work is not None:
        work(x).block_until_ready()
    if number == 3 and step == 20:
        time.sleep(7200)
    time.sleep(max(0, until - time.monotonic()))
    print(f"step={step} loss={1 / step:.4f}", flush=True)
"""
"""Worker 2 is slow, 3 hangs, 5 does not use its chips, and the memory of those of 6 is nearly full,
as its program tells; the disk of 4 is full, by a fault."""
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
EXPECTED = {"straggler": [2], "hung": [3], "disk-full": [4], "idle": [5], "hbm-full": [6]}
SICK_S, STARVED_S, MEASURED_S = 33 * 60, 240, 60


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


def of_dashboard(here, name: str) -> list[str]:
    """What the page of a job says is wrong with it."""
    with served(here.cloud.home, time.time()) as board:
        browser = Browser(board.port)
        browser.sign_in(board.link)
        page = f"/jobs/{here.jobs[name]}"
        browser.get(page)  # from now on its workers are measured
        (watched,) = board.board.watches.slices
        last_s = time.monotonic() + MEASURED_S
        while not watched.is_known and time.monotonic() < last_s:
            time.sleep(1)
        return findings_of(browser.get(page))


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
    assert {"straggler", "hung", "idle", "hbm-full"} <= named(stored["findings"]).keys()
    told = of_dashboard(sick, "sick")
    for worker in (2, 3, 4, 5, 6):
        assert any(re.search(rf"\bworkers? {worker}\b", each) for each in told), (worker, told)
    assert sick.tpuctl("job", "cancel", sick.jobs["sick"]).code == 0


def test_a_host_that_starves_its_chips_is_told(sick):
    started(sick, "starved", 1, STARVED)
    time.sleep(STARVED_S)
    assert explained(sick, "starved") == {"input-bound": [0]}
    assert of_top(sick, "starved") == {"input-bound": [0]}
    assert sick.tpuctl("job", "cancel", sick.jobs["starved"]).code == 0
