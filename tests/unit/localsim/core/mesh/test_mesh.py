"""A slice's workers as real processes: they find each other, and name the lost one."""

import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from localsim.core import Mesh, MeshError
from localsim.core.mesh import MEETING_S
from localsim.core.wire.peer_monitor import SILENCE_S
from unit.localsim.core.mesh.processes import slice_environment, started

TYPES = {1: "v5litepod-4", 2: "v4-16", 4: "v5litepod-16"}

# Says when it has met the others, and goes on when it is told to.
STEPS = """
import sys
import numpy as np
from localsim.core import Mesh
with Mesh.connect(silence_s=float(sys.argv[1])) as mesh:
    while True:
        print(mesh.all_reduce([1.0] * len(mesh.chips))[0], flush=True)
        exec(input())
"""


def test_one_worker_needs_nobody():
    with Mesh.connect({"TPU_ACCELERATOR_TYPE": "v5litepod-4"}) as mesh:
        sums = mesh.all_reduce([[np.full((2, 2), chip), np.ones(1)] for chip in range(4)])
    assert [[each.tolist() for each in own] for own in sums] == [
        [[[6.0, 6.0], [6.0, 6.0]], [4.0]]
    ] * 4


def stepping(environment, worker_ids, silence_s=SILENCE_S):
    """Workers that stand after their first sum and wait for a line; a context."""
    return started(["-c", STEPS, str(silence_s)], environment, worker_ids, stdin=subprocess.PIPE)


def tell(line, workers):
    for worker in workers:
        worker.stdin.write(f"{line}\n")
        worker.stdin.flush()


def answers_to(line, workers):
    """What they say in the end: their errors' last lines."""
    tell(line, workers)
    return [worker.communicate(timeout=30)[1].strip().splitlines()[-1] for worker in workers]


@pytest.mark.system
@pytest.mark.parametrize(
    ("blow", "worker_count", "why"),
    [("SIGKILL", 4, r"\w.*"), ("SIGSTOP", 2, "it was silent for too long")],
)
def test_a_lost_worker_is_named_by_all_others(blow, worker_count, why):
    environment = slice_environment(TYPES[worker_count], worker_count)
    with stepping(environment, range(worker_count), silence_s=2) as workers:
        assert {worker.stdout.readline() for worker in workers} == {f"{worker_count * 4}.0\n"}
        workers[1].send_signal(getattr(signal, blow))
        errors = answers_to("pass", [each for each in workers if each is not workers[1]])
    wanted = re.compile(rf"localsim.core.wire.links.MeshError: worker 1 is lost: {why}")
    assert all(wanted.fullmatch(error) for error in errors), errors


@pytest.mark.system
def test_a_slow_worker_is_waited_for_and_one_that_fails_is_named_with_its_error():
    """The slow one is busy for longer than a lost one may be silent."""
    with stepping(slice_environment(TYPES[2], 2), range(2), silence_s=1) as workers:
        assert [worker.stdout.readline() for worker in workers] == ["8.0\n"] * 2
        tell("pass", workers[:1])
        tell("import time; time.sleep(1.5)", workers[1:])
        assert [worker.stdout.readline() for worker in workers] == ["8.0\n"] * 2
        assert answers_to("1 / 0", workers[1:]) == ["ZeroDivisionError: division by zero"]
        (error,) = answers_to("pass", workers[:1])
    assert error.endswith("worker 1 is lost: its program has ended with ZeroDivisionError")


def come_and_sum(environment, worker_id, meeting_s):
    """What a worker that came is told, instead of the sum."""
    environment = {**environment, "TPU_WORKER_ID": str(worker_id)}
    with (
        pytest.raises(MeshError) as told,
        Mesh.connect(environment, meeting_s=meeting_s) as mesh,
    ):
        mesh.all_reduce([np.ones(1)] * 4)
    return str(told.value)


@pytest.mark.parametrize(
    ("coming", "told"),
    [((0, 1, 3), "worker 2 is missing"), ((1,), "worker 0, worker 2, worker 3 are missing")],
)
def test_workers_that_never_come_are_named_by_those_who_did(coming, told):
    environment = slice_environment(TYPES[4], 4)
    with ThreadPoolExecutor() as threads:
        sums = [threads.submit(come_and_sum, environment, each, 0.5) for each in coming]
    assert [each.result() for each in sums] == [told] * len(coming)


def test_whoever_waits_learns_within_ten_seconds_who_is_lost():
    assert SILENCE_S < 9
    assert MEETING_S < 10


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"TPU_PROCESS_ADDRESSES": "127.0.0.1:1"}, "v5litepod-16 has 4 workers, but the number of"),
        ({"TPU_PROCESS_ADDRESSES": "a:1,b:2,c,d:4"}, "no address of a worker, host:port, is 'c'"),
        ({"TPU_PROCESS_ADDRESSES": "a:1,b:2,c:3,d:4", "TPU_WORKER_ID": "4"}, "this worker 4"),
    ],
)
def test_an_environment_that_contradicts_itself_is_refused(told, message):
    with pytest.raises(MeshError, match=message):
        Mesh.connect({"TPU_ACCELERATOR_TYPE": "v5litepod-16", **told})


def test_chips_are_where_the_metadata_server_says():
    with Mesh.connect({"TPU_ACCELERATOR_TYPE": "v5litepod-8"}) as mesh:
        assert (mesh.first_chip, mesh.chip_count, mesh.worker_id, mesh.worker_count) == (0, 8, 0, 1)
        assert mesh.coordinates(5) == (1, 2, 0)
