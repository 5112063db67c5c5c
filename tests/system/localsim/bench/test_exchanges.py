"""A row of the collective sweep, in one worker and in workers that are processes."""

import json
import os
import subprocess
import sys

import pytest

from localsim.bench import BenchError, collectives, slice_processes
from localsim.core import Mesh
from tpuctl import catalog

SIZE_BYTES = 4096


@pytest.fixture(scope="module")
def four_chips():
    with Mesh.connect({"TPU_ACCELERATOR_TYPE": "v5litepod-4"}) as mesh:
        yield mesh


def test_every_operation_in_every_size_until_time_is_over(four_chips):
    rows = list(collectives.collective_rows(four_chips, 60.0, [64, SIZE_BYTES]))
    assert [(row["operation"], row["size_bytes"]) for row in rows] == [
        (operation, size)
        for operation in ("all_reduce", "reduce_scatter", "permute", "all_gather", "all_to_all")
        for size in (64, SIZE_BYTES)
    ]
    assert list(collectives.collective_rows(four_chips, 0.0)) == []


@pytest.mark.parametrize("operation", collectives.OPERATIONS)
def test_what_is_modelled_is_what_the_chips_are_charged(four_chips, operation):
    chip = four_chips.chips[0]
    before = chip.counters
    collectives._exchange(four_chips, operation, SIZE_BYTES)()
    modelled = collectives._modelled(four_chips.accelerator_type, operation, SIZE_BYTES)
    assert (chip.counters - before).modelled_s == pytest.approx(modelled.value_s)


@pytest.mark.parametrize(("chips", "size_bytes"), [(1, 60), (4, 64), (16, 1024), (12, 576)])
def test_every_chip_can_have_a_part_of_every_part(chips, size_bytes):
    assert collectives.divisible_size(57, chips) == size_bytes
    assert collectives.divisible_size(size_bytes, chips) == size_bytes


def test_workers_that_are_processes_measure_together_and_end():
    kind = catalog.accelerator_type("v4-16")
    rows = [json.loads(line) for line in slice_processes.worker_output(kind, 1e-6)]
    assert [(row["operation"], row["size_bytes"]) for row in rows] == [("all_reduce", 64 << 10)]


def test_what_a_worker_complains_of_is_told(monkeypatch):
    monkeypatch.setattr(slice_processes, "_ports", lambda count: [99999] * count)
    with pytest.raises(BenchError, match="99999|port must be") as told:
        list(slice_processes.worker_output(catalog.accelerator_type("v4-16"), 1.0))
    assert told.value.exit_code == 40


def test_a_worker_ends_with_whoever_started_it():
    environ = {
        **os.environ,
        "TPU_ACCELERATOR_TYPE": "v4-16",
        "TPU_PROCESS_ADDRESSES": "127.0.0.1:{},127.0.0.1:{}".format(*slice_processes._ports(2)),
        "TPU_WORKER_ID": "0",
    }
    argv = [sys.executable, "-m", "localsim.bench.slice_worker", "1"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=environ) as worker:
        worker.stdin.close()
        assert worker.wait(30) == 1


def test_when_nobody_reads_any_more_it_ends_without_a_word():
    argv = [sys.executable, "-P", "-m", "localsim", "bench", "--accelerator-type", "v5litepod-1"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as measuring:
        assert json.loads(measuring.stdout.readline())["kind"] == "about"
        measuring.stdout.close()
        assert (measuring.stderr.read(), measuring.wait(60)) == (b"", 0)
