"""SIGTERM: all workers save at one step, in time, and end."""

import os
import signal
import subprocess
import sys
import types

import pytest

from tpuctl.checkpoint import Checkpointer
from tpuctl.checkpoint.preemption_save import PreemptionHandler
from tpuctl.checkpoint.read.step_reader import restore_newest
from tpuctl.checkpoint.worker_run import WorkerRun as Worker
from tpuctl.errors import TransientError, UsageError
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore
from unit.checkpoint.runs import Run, same, together, tree


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def store():
    return MemoryStore(MemoryBucket())


@pytest.fixture
def clock():
    return Clock()


def workers(store, count, clock):
    """Of each worker the run and its Stopping, all of them at step 0."""
    found = [(Worker(store, i, count, 1, 5.0), PreemptionHandler(30, clock)) for i in range(count)]
    for run, stopping in found:
        assert not stopping.is_last(run, 0)
    return found


def test_a_worker_on_its_own_saves_at_once_says_so_and_ends(store, capsys):
    with pytest.raises(SystemExit) as ended, Checkpointer(store, every=100) as checkpointer:
        assert checkpointer.save(1, tree(1)) is False
        os.kill(os.getpid(), signal.SIGTERM)
        checkpointer.save(2, tree(2))
    assert ended.value.code == 143
    assert capsys.readouterr().err == "tpuctl: told to end: step 2 is saved\n"
    restored = restore_newest(store)
    assert (restored.step, same(restored.tree, tree(2))) == (2, True)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_all_save_at_the_greatest_step_plus_one(store, clock):
    (first, a), (second, b) = workers(store, 2, clock)
    a.tell()
    assert not a.is_last(first, 5)
    assert not b.is_last(second, 5)  # it was not told yet
    assert not a.is_last(first, 6)
    b.tell()
    assert not b.is_last(second, 6)
    assert (a.is_last(first, 7), b.is_last(second, 7)) == (True, True)


def test_all_told_at_the_same_step_save_at_the_next(store, clock):
    found = workers(store, 3, clock)
    for _, stopping in found:
        stopping.tell()
    assert [stopping.is_last(run, 8) for run, stopping in found] == [False] * 3
    assert [stopping.is_last(run, 9) for run, stopping in found] == [True] * 3


def test_workers_that_ask_now_and_then_save_at_the_next_step_that_they_ask_at(store, clock):
    found = workers(store, 2, clock)
    for _, stopping in found:
        stopping.tell()
    assert [stopping.is_last(run, 100) for run, stopping in found] == [False, False]
    assert [stopping.is_last(run, 200) for run, stopping in found] == [True, True]


def test_what_the_others_said_is_read_once(store, clock):
    found = workers(store, 3, clock)
    for run, stopping in found:
        stopping.tell()
        stopping.is_last(run, 1)
    (run, stopping), *_ = found
    before = len(store.requests)
    assert stopping.is_last(run, 2)
    assert [request.verb for request in store.requests[before:]] == ["list", "get", "get", "get"]
    assert stopping.is_last(run, 3)
    assert len(store.requests) == before + 4


@pytest.mark.system
def test_a_child_that_was_forked_ends_at_once(tmp_path):
    """Data loaders are forked, and ended by SIGTERM."""
    program = """
import multiprocessing, sys, time
from tpuctl.checkpoint import Checkpointer
with Checkpointer(sys.argv[1]) as checkpointer:
    checkpointer.save(1, {}, wait=True)
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    child.terminate()
    child.join(20)
    print(child.exitcode)
    child.kill()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "-15\n"), ended.stderr


def test_workers_that_were_told_make_one_whole_step(store):
    run = Run(store, 1, every=100)
    run.call(lambda worker: worker.save(1, tree(1)))
    for worker in run.workers:
        worker._stopping.tell()
    run.call(lambda worker: worker.save(2, tree(2)))

    def end(worker):
        with pytest.raises(SystemExit) as ended:
            worker.save(3, tree(3))
        return ended.value.code, worker.latest()

    assert together(end, run.workers) == [(143, 3), (143, 3)]
    assert same(restore_newest(store).tree, tree(3))


def test_a_worker_that_nobody_told_saves_nothing_of_its_own_accord(store, clock):
    (run, stopping), _ = workers(store, 2, clock)
    assert not stopping.is_last(run, 1)
    assert stopping.left_s == float("inf")
    assert not store.bucket.keys("STOP_")


def test_with_less_than_ten_seconds_left_nothing_is_begun_and_that_is_said_once(
    store, clock, capsys
):
    ((run, stopping),) = workers(store, 1, clock)
    stopping.tell()
    clock.now_s += 19.9
    assert stopping.is_last(run, 1)
    assert not stopping.is_too_late(1)
    clock.now_s += 0.2
    assert stopping.is_too_late(2)
    assert stopping.is_too_late(3)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "step 2 is not saved: of the 30 s of notice 10 s are left" in said


def test_a_save_that_is_too_late_returns_false(store, monkeypatch):
    monkeypatch.setenv("TPUCTL_NOTICE_S", "5")
    with Checkpointer(store) as checkpointer:
        assert checkpointer.save(1, tree(1), wait=True)
        os.kill(os.getpid(), signal.SIGTERM)
        assert checkpointer.save(2, tree(2)) is False
    assert restore_newest(store).step == 1


def test_a_run_that_was_told_before_its_first_save_leaves_what_there_was(store):
    """Its program restores by itself, and was told to end in its first steps."""
    Run(store, 1).save(1)
    run = Run(store, 2, every=100)
    for worker in run.workers:
        worker._stopping.tell()
    run.call(lambda worker: worker.save(2, tree(2)))
    assert store.bucket.keys("STOP_0000000000000002/")
    assert restore_newest(store).step == 1


def test_the_last_step_is_saved_even_when_the_one_before_failed(store):
    worker = Checkpointer(store, 0, 1, fence=1)
    worker.save(1, tree(1), wait=True)
    with pytest.raises(UsageError):
        worker.save(2, {"w": object()})
    worker._writer._outcome.failure = TransientError("503")
    worker._stopping.tell()
    with pytest.raises(TransientError):
        worker.save(3, tree(3))
    assert restore_newest(store).step == 3


def test_a_handler_of_the_program_stays(store):
    def own(_number, _frame):
        """Theirs."""

    before = signal.signal(signal.SIGTERM, own)
    try:
        with Checkpointer(store):
            assert signal.getsignal(signal.SIGTERM) is own
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.system
def test_a_program_that_has_saved_nothing_yet_ends_at_once(tmp_path):
    program = """
import os, signal, sys
from tpuctl.checkpoint import Checkpointer
with Checkpointer(sys.argv[1]) as checkpointer:
    os.kill(os.getpid(), signal.SIGTERM)
    print("went on")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "")


def test_the_sync_point_of_jax_decides_where_it_is_up(store, clock, monkeypatch):
    asked = []
    state = types.SimpleNamespace(preemption_sync_manager=object())
    monkeypatch.setitem(
        sys.modules, "jax._src.distributed", types.SimpleNamespace(global_state=state)
    )
    utils = types.SimpleNamespace(
        reached_preemption_sync_point=lambda count: asked.append(count) or count == 2
    )
    monkeypatch.setitem(sys.modules, "jax", types.ModuleType("jax"))
    experimental = types.ModuleType("jax.experimental")
    monkeypatch.setitem(sys.modules, "jax.experimental", experimental)
    monkeypatch.setattr(experimental, "multihost_utils", utils, raising=False)
    stopping = PreemptionHandler(30, clock)
    stopping.listen()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "JAX has caught it already"
    run = Worker(store, 0, 2, 1, 5.0)
    assert [stopping.is_last(run, step) for step in (100, 200)] == [False, True]
    assert asked == [1, 2], "it is the next time that they ask, whatever step that is"
    assert stopping.left_s == 30
    assert not store.bucket.keys("STOP_")
