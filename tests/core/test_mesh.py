"""A slice's workers as real processes: sums to the same bits, and a lost worker named in time."""

import hashlib
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from processes import slice_environment, start, started

from localsim.core import Mesh, MeshError
from localsim.core.mesh import MEETING_S, SILENCE_S, TELLING_S
from tpuctl.perfmodel import chip as model

TYPES = {1: "v5litepod-4", 2: "v4-16", 4: "v5litepod-16"}

# Every chip gives two arrays that depend on its number alone; the worker prints the sums' bits.
SUM = """
import hashlib, json, sys
import numpy as np
from localsim.core import Mesh
with Mesh.connect() as mesh:
    given = []
    for chip in range(mesh.first_chip, mesh.first_chip + len(mesh.chips)):
        random = np.random.default_rng(chip)
        given.append([random.standard_normal((300, 70)) * 10.0 ** (chip % 7), random.random(3)])
    for _ in range(int(sys.argv[1])):
        sums = mesh.all_reduce(given)
    print(hashlib.sha256(b"".join(each.tobytes() for each in sums)).hexdigest())
"""

# Says when it has met the others, and goes on when it is told to.
STEPS = """
import sys
import numpy as np
from localsim.core import Mesh
with Mesh.connect(silence_s=float(sys.argv[1])) as mesh:
    while True:
        print(mesh.all_reduce([[np.ones(4)]] * len(mesh.chips))[0].tolist(), flush=True)
        input()
"""


def expected_hash(chip_count):
    total = [np.zeros((300, 70), np.float32), np.zeros(3, np.float32)]
    for chip in range(chip_count):
        random = np.random.default_rng(chip)
        given = [random.standard_normal((300, 70)) * 10.0 ** (chip % 7), random.random(3)]
        total = [a + b.astype(np.float32) for a, b in zip(total, given, strict=True)]
    return hashlib.sha256(b"".join(each.tobytes() for each in total)).hexdigest()


@pytest.mark.parametrize("worker_count", [2, 4])
def test_the_sum_has_the_same_bits_on_every_worker_as_chip_after_chip(worker_count):
    environment = slice_environment(TYPES[worker_count], worker_count)
    with started(["-c", SUM, "3"], environment, range(worker_count)) as workers:
        answers = [worker.communicate(timeout=60) for worker in workers]
    assert [out.strip() for out, _ in answers] == [
        expected_hash(len(workers) * 4)
    ] * worker_count, answers


def test_one_worker_needs_nobody():
    with Mesh.connect({"TPU_ACCELERATOR_TYPE": "v5litepod-4"}) as mesh:
        sums = mesh.all_reduce([[np.full((2, 2), chip), np.ones(1)] for chip in range(4)])
    assert [each.tolist() for each in sums] == [[[6.0, 6.0], [6.0, 6.0]], [4.0]]


def test_a_reduction_is_charged_to_every_chip():
    with Mesh.connect({"TPU_ACCELERATOR_TYPE": "v5litepod-4"}) as mesh:
        mesh.all_reduce([[np.ones(1000)]] * 4)
        counters = [chip.counters for chip in mesh.chips]
    assert [each.ici_bytes for each in counters] == [6000] * 4
    assert {each.modelled_s for each in counters} == {model.all_reduce("v5litepod-4", 4000).value_s}


def test_each_chip_gives_its_arrays():
    with (
        Mesh.connect({"TPU_ACCELERATOR_TYPE": "v5litepod-4"}) as mesh,
        pytest.raises(ValueError, match="4 chips, but arrays of 1"),
    ):
        mesh.all_reduce([[np.ones(1)]])


@pytest.mark.parametrize("victim", [0, 3])
def test_a_worker_that_dies_is_named_by_all_others_at_once(victim):
    environment = slice_environment(TYPES[4], 4)

    with started(["-c", STEPS, "8"], environment, range(4), stdin=subprocess.PIPE) as workers:
        assert [worker.stdout.readline() for worker in workers] == [
            "[16.0, 16.0, 16.0, 16.0]\n"
        ] * 4
        began = time.monotonic()
        workers[victim].send_signal(signal.SIGKILL)
        others = [worker for worker in workers if worker is not workers[victim]]
        for worker in others:
            worker.stdin.write("\n")
            worker.stdin.flush()
        errors = [worker.communicate(timeout=20)[1] for worker in others]
    assert all(f"MeshError: worker {victim} is lost" in error for error in errors), errors
    assert time.monotonic() - began < 10


def test_a_worker_that_stands_still_is_named_within_the_limit():
    environment = slice_environment(TYPES[2], 2)

    with started(["-c", STEPS, "2"], environment, range(2), stdin=subprocess.PIPE) as workers:
        assert [worker.stdout.readline() for worker in workers] == ["[8.0, 8.0, 8.0, 8.0]\n"] * 2
        workers[1].send_signal(signal.SIGSTOP)
        began = time.monotonic()
        _, error = workers[0].communicate("\n", timeout=20)
    assert "MeshError: worker 1 is lost: it was silent for too long" in error
    assert 1.9 < time.monotonic() - began < 8


def come_and_sum(environment, worker_id, meeting_s):
    """What a worker that came is told, instead of the sum."""
    environment = {**environment, "TPU_WORKER_ID": str(worker_id)}
    with (
        pytest.raises(MeshError) as told,
        Mesh.connect(environment, meeting_s=meeting_s) as mesh,
    ):
        mesh.all_reduce([[np.ones(1)]] * 4)
    return str(told.value)


def test_a_worker_that_never_comes_is_named_by_those_who_did():
    environment = slice_environment(TYPES[4], 4)
    with ThreadPoolExecutor() as threads:
        coming = [threads.submit(come_and_sum, environment, each, 1.0) for each in (0, 1, 3)]
    assert [each.result() for each in coming] == ["worker 2 is missing"] * 3


def test_whoever_waits_learns_within_ten_seconds_who_is_lost():
    assert SILENCE_S < SILENCE_S + TELLING_S < 10
    assert MEETING_S < 10


def test_a_process_of_an_older_attempt_cannot_join():
    environment = slice_environment(TYPES[2], 2, TPUCTL_ATTEMPT="2")
    older = start(["-c", SUM, "1"], {**environment, "TPUCTL_ATTEMPT": "1"}, 1)
    with started(["-c", SUM, "1"], environment, range(2)) as workers:
        answers = [worker.communicate(timeout=60)[0].strip() for worker in workers]
        older.kill()
        older.communicate()
    assert answers == [expected_hash(8)] * 2


def test_strangers_who_call_do_not_disturb():
    environment = slice_environment(TYPES[2], 2)
    port = int(environment["TPU_PROCESS_ADDRESSES"].split(",")[0].rpartition(":")[2])
    with started(["-c", SUM, "1"], environment, [0]) as (worker,):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as stranger:
                    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                break
            except OSError:
                continue
        with started(["-c", SUM, "1"], environment, [1]) as (other,):
            answers = [each.communicate(timeout=60)[0].strip() for each in (worker, other)]
    assert answers == [expected_hash(8)] * 2


def test_an_environment_that_contradicts_itself_is_refused():
    with pytest.raises(
        MeshError, match="v5litepod-16 has 4 workers, but the number of addresses told is 1"
    ):
        Mesh.connect(
            {"TPU_ACCELERATOR_TYPE": "v5litepod-16", "TPU_PROCESS_ADDRESSES": "127.0.0.1:1"}
        )
