"""Checkpoints come and go while others read them, saves fail, and not all that lies there is ours.

There is a whole step at every moment, who reads gets one, and what is not ours stays as it is. A
few seconds of it in every run, minutes in the soak.
"""

import random
import threading
import time
from collections import Counter

import pytest
from clouds import STORE_KINDS

from soak.checkpoints.checkpoint_gangs import is_right, nursery, place
from soak.checkpoints.checkpoint_program import tree
from tpuctl.checkpoint import Checkpointer, list_steps
from tpuctl.errors import NotFoundError, TransientError

FOREIGN = {
    "notes.txt": b"mine",
    "step_000000000010/notes.txt": b"mine too",
    "step_000000000020/a_0000000000000001/shard_0-of_1_0.safetensors.bak": b"a copy",
    "step_10/COMMIT": b"another program's step",
    "1000/_CHECKPOINT_METADATA": b"{}",
    "ROLL": b"no fence of ours",
}


@pytest.fixture(scope="module")
def busy_births(tmp_path_factory):
    with nursery(tmp_path_factory.mktemp("births")) as found:
        yield found


@pytest.fixture(scope="module", params=STORE_KINDS)
def busy_place(request, tmp_path_factory):
    with place(request.param, tmp_path_factory.mktemp("busy")) as found:
        yield found


def read_meanwhile(births, checkpoints, saves, keep):
    """Restore over and over while a process saves: what is wrong, and how often it was done."""
    births.run(checkpoints.gang(1, 1, 1))
    pids = births.start(checkpoints.gang(2, 1, saves, keep=keep))
    ended = threading.Event()
    told = []
    waiting = threading.Thread(target=lambda: (told.extend(births.wait(pids)), ended.set()))
    waiting.start()
    wrong, steps = [], []
    while not ended.is_set():
        restored = checkpoints.read()
        if restored is None or restored.skipped:
            wrong.append(f"{restored and restored.skipped} after {steps[-1:]}")
            continue
        steps.append(restored.step)
        if not same_numbers(checkpoints, restored):
            wrong.append(f"step {restored.step} is not what was saved")
    waiting.join()
    if steps != sorted(steps):
        wrong.append("an earlier step came after a later one")
    return wrong + [str(each) for each in told if each.code != 0 or each.error], steps


def same_numbers(checkpoints, restored):
    try:
        return is_right(checkpoints, restored)
    except NotFoundError:  # deleted meanwhile: then its fence is known from its number
        fence = 1 if restored.step == 10 else 2
        wanted = tree(restored.step, fence)["layers"]
        return all((restored.tree["layers"][k] == wanted[k]).all() for k in wanted)


def test_who_reads_while_steps_are_deleted_gets_a_whole_one(busy_births, busy_place):
    wrong, steps = read_meanwhile(busy_births, busy_place.new(), 5, 1)
    assert wrong == []
    assert len(set(steps)) > 1


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_who_reads_for_long_while_steps_are_deleted(busy_births, busy_place):
    wrong, steps = read_meanwhile(busy_births, busy_place.new(), 150, 1)
    print(f"\n{busy_place.kind}: {len(steps)} restores of {len(set(steps))} steps: {wrong}")
    assert wrong == []


def test_what_is_not_ours_stays(busy_births, busy_place):
    checkpoints = busy_place.new()
    for key, data in FOREIGN.items():
        checkpoints.store.put_if_absent(key, data)
    for fence in (1, 2, 3):
        busy_births.run(checkpoints.gang(fence, 1, 2, keep=1))
    assert {key: checkpoints.store.get_range(key) for key in FOREIGN} == FOREIGN
    assert checkpoints.leaked() == set(FOREIGN)


class FailingStore:
    """A store one of whose calls fails, now and then."""

    def __init__(self, store, draws):
        self._store = store
        self._draws = draws
        self._left = None

    def fail_soon(self):
        self._left = self._draws.randrange(12)

    def heal(self):
        self._left = None

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if name not in ("put_if_absent", "put_if_generation", "get_range", "list", "delete"):
            return found

        def call(*args, **more):
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    raise TransientError(f"{name}: 503")
            return found(*args, **more)

        return call


def fail_now_and_then(checkpoints, draws, rounds):
    """keep=1, and half of the saves fail: what is wrong, and how many failed."""
    store = FailingStore(checkpoints.store, draws)
    outcomes, wrong, newest = Counter(), [], None
    with Checkpointer(store, 0, 1, fence=1, keep=1) as worker:
        worker.restore()
        for step in range(1, rounds + 1):
            if step > 1 and draws.random() < 0.5:
                store.fail_soon()
            try:
                worker.save(step, tree(step, 1))
                worker.wait()
            except TransientError:
                outcomes["failed"] += 1
            else:
                outcomes["saved"], newest = outcomes["saved"] + 1, step
            worker.close()
            store.heal()
            restored = checkpoints.read()
            if restored is None or restored.step < newest or not is_right(checkpoints, restored):
                wrong.append(f"{restored and restored.step} after {step}, acknowledged {newest}")
            newest = restored.step if restored else newest
        worker.save(rounds + 1, tree(rounds + 1, 1), wait=True)
        worker.close()
    shown = [(info.step, info.state) for info in list_steps(checkpoints.store)]
    if shown != [(rounds + 1, "COMPLETE")] or checkpoints.leaked():
        wrong.append(f"in the end there are {shown} and {checkpoints.leaked()}")
    return wrong, outcomes


@pytest.mark.filterwarnings("ignore:old checkpoints were not deleted")
def test_the_only_step_stays_while_saves_fail(busy_place):
    wrong, outcomes = fail_now_and_then(busy_place.new(), random.Random(1), 8)
    assert wrong == []
    assert min(outcomes["failed"], outcomes["saved"]) > 0


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore:old checkpoints were not deleted")
def test_the_only_step_stays_while_200_saves_fail_or_not(busy_place):
    seed = time.time_ns()
    wrong, outcomes = fail_now_and_then(busy_place.new(), random.Random(seed), 200)
    print(f"\nseed {seed}, {busy_place.kind}: {dict(outcomes)}: {wrong}")
    assert wrong == []
