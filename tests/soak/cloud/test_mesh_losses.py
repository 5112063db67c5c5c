"""Workers of a mesh that are killed, stopped or cut off: all others name them in ten seconds."""

import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from itertools import product

import pytest
from unit.localsim.core.mesh.processes import slice_environment, started

LIMIT_S = 10
WORKERS = 4

# Says "met", then does what it is told, line by line, and says how that went.
PROGRAM = """
import os, signal, socket, sys, time
import numpy as np
from localsim.core import Mesh, MeshError

def add(count=1000):
    return mesh.all_reduce([np.ones(count, np.float32)] * len(mesh.chips))[0][0]

def busy(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass

def fork():
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    return child

def cut():
    for number in os.listdir("/proc/self/fd"):
        try:
            end = socket.socket(fileno=int(number))
            if end.family == socket.AF_INET:
                end.shutdown(socket.SHUT_RDWR)
            end.detach()
        except OSError:
            pass

with Mesh.connect() as mesh:
    print("met", flush=True)
    for line in sys.stdin:
        try:
            print("ok", eval(line), flush=True)
        except MeshError as error:
            print("MeshError:", error, flush=True)
"""

BLOWS = {
    "killed": ("0", signal.SIGKILL),
    "killed, with a child that has its sockets": ("fork()", signal.SIGKILL),
    "stopped": ("0", signal.SIGSTOP),
}


@contextmanager
def slice_of_four():
    """Workers that have met and made a first sum."""
    environment = slice_environment("v5litepod-16", WORKERS)
    with started(["-c", PROGRAM], environment, range(WORKERS), stdin=subprocess.PIPE) as workers:
        assert [answer(worker) for worker in workers] == ["met"] * WORKERS
        tell(workers, "add()")
        assert [answer(worker) for worker in workers] == ["ok 16.0"] * WORKERS
        yield workers


def tell(workers, line):
    for worker in workers:
        worker.stdin.write(f"{line}\n")
        worker.stdin.flush()


def answer(worker):
    return worker.stdout.readline().strip()


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("blow", "victim"), list(product(BLOWS, (0, 2))))
@pytest.mark.parametrize("moment", ["before", "while they wait", "in the middle of the data"])
def test_a_lost_worker_is_named_within_ten_seconds(blow, victim, moment):
    before, blow_signal = BLOWS[blow]
    with slice_of_four() as workers:
        lost, others = workers[victim], [each for each in workers if each is not workers[victim]]
        tell([lost], before)
        child = int(answer(lost).removeprefix("ok "))
        if moment == "while they wait":
            tell(others, "add()")
        if moment == "in the middle of the data":
            tell(workers, "[add(4_000_000) for _ in range(10_000)]")
            time.sleep(0.3)
        lost.send_signal(blow_signal)
        began = time.monotonic()
        if moment == "before":
            tell(others, "add()")
        errors = [answer(each) for each in others]
        took_s = time.monotonic() - began
        if child:
            os.kill(child, signal.SIGKILL)
    print(f"\n{blow} {moment}: {took_s:.1f} s")
    wanted = re.compile(rf"MeshError: worker {victim} is lost: .*")
    assert all(map(wanted.fullmatch, errors)), errors
    assert took_s < LIMIT_S


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_stopped_worker_that_goes_on_too_late_says_that_it_was_the_lost_one():
    with slice_of_four() as workers:
        workers[1].send_signal(signal.SIGSTOP)
        others = [workers[0], *workers[2:]]
        # More than one round, or what the others had sent before they gave up would be enough.
        tell(others, "add(100_000)")
        named = {answer(each) for each in others}
        workers[1].send_signal(signal.SIGCONT)
        tell(workers[1:2], "add(100_000)")
        assert named == {answer(workers[1])}
        assert named == {"MeshError: worker 1 is lost: it was silent for too long"}


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_worker_that_is_cut_off_is_named_by_the_others():
    with slice_of_four() as workers:
        tell(workers[3:], "cut()")
        answer(workers[3])
        tell(workers[:3], "add()")
        errors = [answer(each) for each in workers[:3]]
    assert all(each.startswith("MeshError: worker 3 is lost: ") for each in errors), errors


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "work",
    [
        "time.sleep(30)",
        "busy(30)",
        "[np.linalg.svd(np.ones((900, 900))) for _ in range(30)] and 0",
    ],
)
def test_a_worker_that_computes_for_half_a_minute_is_waited_for(work):
    with slice_of_four() as workers:
        tell(workers[:1], work)
        tell(workers, "add(10_000_000)")
        assert answer(workers[0]).startswith("ok")
        assert [answer(worker) for worker in workers] == ["ok 16.0"] * WORKERS


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_short_stop_is_survived_by_all():
    with slice_of_four() as workers:
        workers[2].send_signal(signal.SIGSTOP)
        tell(workers, "add()")
        time.sleep(4)
        workers[2].send_signal(signal.SIGCONT)
        assert [answer(worker) for worker in workers] == ["ok 16.0"] * WORKERS
