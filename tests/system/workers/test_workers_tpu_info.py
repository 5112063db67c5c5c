"""Stock tpu-info on simulated workers, through the real command line: the chips of the generation,
which program holds them, and what it does on them."""

import importlib.util
import re
import shlex
from contextlib import closing

import pytest
from clouds import Runner, serve

TOOLS = [name for name in ("jax", "tpu_info") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(TOOLS), reason=f"not installed: {', '.join(TOOLS)}")

NODES = {"five": ("v5litepod-4", "us-west4-a"), "three": ("v3-8", "europe-west4-a")}

# Says so when the service tells of its array: 64 MiB on the second device.
JAX_PROGRAM = """
import os, time, jax, jax.numpy as jnp
from tpu_info import device, metrics
array = jax.device_put(jnp.ones((16, 1024, 1024)), jax.devices()[1]).block_until_ready()
while not any(each.memory_usage for each in metrics.get_chip_usage(device.TpuChip.V5E)):
    time.sleep(0.05)
print(os.getpid(), flush=True)
time.sleep(600)
"""
HOLDER = """
import os, time
from localsim_chips import holding
holding.hold(lambda: holding.Usage([2**30] * 4, 0.5))
from tpu_info import device, metrics
while not any(each.memory_usage for each in metrics.get_chip_usage(device.TpuChip.V3)):
    time.sleep(0.05)
print(os.getpid(), flush=True)
time.sleep(600)
"""

# The same product again and again: each second looks like the one before.
CORE_PROGRAM = """
import os, time
import numpy as np
from localsim.core import Mesh
from tpu_info import device, metrics
mesh, ones = Mesh.connect(), np.ones((256, 256))
is_told = False
while True:
    for chip in mesh.chips:
        chip.matmul(ones, ones)
    time.sleep(0.02)
    if not is_told and any(each.mean for each in metrics.get_hlo_exec_timing(device.TpuChip.V5E)):
        is_told = True
        print(os.getpid(), flush=True)
"""
EXECUTION = "--metric hlo_queue_size --metric hlo_exec_timing --metric runtime_hbm_utilization"

# tpu-info asks `pip list` for libtpu, up to three times, which takes longer than all the rest.
PIP = "mkdir -p bin; echo '#!/bin/sh' > bin/pip; chmod +x bin/pip; PATH=$PWD/bin:$PATH; "


@pytest.fixture(scope="module")
def on_a_worker(tmp_path_factory, namespaces):
    """`on_a_worker(node, script)`: what a shell script prints there."""
    home = tmp_path_factory.mktemp("home")
    with closing(serve(home, "--manual-clock", "--isolation", "namespace")) as cloud:
        running = next(cloud)
        tpuctl = Runner(home, sleep=running.control.advance)
        for node, (kind, zone) in NODES.items():
            created = tpuctl("node", "create", node, "-t", kind, "--zone", zone)
            assert created.code == 0, created.err

        def run(node, script):
            argv = ("--zone", NODES[node][1], "-o", "json", "--", "sh", "-c", PIP + script)
            (row,) = tpuctl("node", "exec", node, *argv).json
            assert row["exit_status"] == 0, row
            return row["stdout"]

        run.tpuctl = tpuctl
        yield run


def beside(program, command):
    """A script that runs a command while a program holds the chips; first its process id."""
    return (
        f"python3 -c {shlex.quote(program)} > ready & "
        "until test -s ready || ! kill -0 $!; do sleep 0.05; done; "
        f"cat ready; export COLUMNS=120; {command}; kill $!; wait $!; rm ready"
    )


def rows(table):
    """The cells of every row that begins with a cell of a number or a device file."""
    lines = re.findall(r"^\| ((?:/dev/\S+|\d+) .*)\|$", table, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def test_it_lists_the_chips_and_the_live_metrics_of_a_jax_program(on_a_worker):
    printed = on_a_worker("five", beside(JAX_PROGRAM, "tpu-info 2>&1"))
    pid = printed.split()[0]
    found = rows(printed)
    assert found[:4] == [[f"/dev/vfio/{chip}", "TPU v5e chip", "1", pid] for chip in range(4)]
    memory = [row[1] for row in found[4:8]]
    assert memory == [
        "0.00 GiB / 15.75 GiB",
        "0.06 GiB / 15.75 GiB",
        "0.00 GiB / 15.75 GiB",
        "0.00 GiB / 15.75 GiB",
    ]
    assert all(re.fullmatch(r"\d+\.\d\d%", row[2]) for row in found[4:8])


def test_where_a_chip_is_two_devices_it_lists_both_and_who_holds_the_chip(on_a_worker):
    asked = "tpu-info --process 2>&1; tpu-info --metric hbm_usage 2>&1"
    printed = on_a_worker("three", beside(HOLDER, asked))
    pid = printed.split()[0]
    assert rows(printed) == [
        *([f"/dev/accel{chip}", pid, "python3"] for chip in range(4)),
        *([str(device), "0.50 GiB / 15.48 GiB"] for device in range(8)),
    ]


def test_tpu_info_and_tpuctl_read_the_same_of_what_the_chips_execute(on_a_worker):
    start = f"setsid python3 -c {shlex.quote(CORE_PROGRAM)} > core 2>&1 < /dev/null & "
    pid = on_a_worker("five", start + "until test -s core; do sleep 0.05; done; cat core").strip()
    try:
        printed = rows(on_a_worker("five", f"COLUMNS=120 tpu-info {EXECUTION} 2>&1"))
        (sample,) = on_a_worker.tpuctl(
            "node", "metrics", "five", "--zone", NODES["five"][1], "-o", "json"
        ).json
    finally:
        on_a_worker("five", f"kill {pid}")
    values = sample["values"]
    chips = [str(chip) for chip in range(4)]
    queues, timings, bandwidths = printed[:4], printed[4:8], printed[8:]
    assert queues == [[chip, f"{values[f'chip.queue_size/{chip}']:.0f}"] for chip in chips]
    means = [[chip, f"{values[f'chip.execution_us/{chip}']:.2f}"] for chip in chips]
    assert [row[:2] for row in timings] == means
    assert bandwidths == [
        [chip, f"{values[f'chip.hbm_bandwidth_percent/{chip}']:.2f}%"] for chip in chips
    ]
    lasts, uses = ({row[1] for row in table} for table in (timings, bandwidths))
    assert len(lasts) == len(uses) == 1  # every product is the same
    assert "0.00" not in lasts and "0.00%" not in uses


def test_without_a_program_there_are_no_metrics(on_a_worker):
    printed = on_a_worker("three", "tpu-info --metric duty_cycle_percent 2>&1")
    assert [row[1] for row in rows(printed)] == ["N/A"] * 2
    assert "Libtpu metrics unavailable" in printed
