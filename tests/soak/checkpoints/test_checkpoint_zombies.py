"""Two runs in one directory: the first one stands still (SIGSTOP) while the second one goes on.

Whatever it was about to do, there is one COMMIT of a step, the later run's stands, and its objects
stay; the zombie is told that it is superseded, and what it left is collected. A few of the moments
in every run, two hundred in the soak.
"""

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress

import pytest
from clouds import STORE_KINDS

from soak.checkpoints.checkpoint_gangs import is_right, nursery, place
from tpuctl.checkpoint import list_steps
from tpuctl.checkpoint.format.layout import commit_key

FILE_BYTES = 5000
MOMENTS = 26
"""A resume and a save make about so many changes; beyond the last one the zombie is just done."""


@pytest.fixture(scope="module")
def stalled_births(tmp_path_factory):
    with nursery(tmp_path_factory.mktemp("births")) as found:
        yield found


@pytest.fixture(scope="module", params=STORE_KINDS)
def haunted_place(request, tmp_path_factory):
    with place(request.param, tmp_path_factory.mktemp("haunted")) as found:
        yield found


@pytest.mark.parametrize(
    ("haunted_place", "moment"),
    [("directory", 2), ("directory", 7), ("bucket", 11)],
    indirect=["haunted_place"],
)
def test_a_zombie_changes_nothing(stalled_births, haunted_place, moment):
    draws = random.Random(moment)
    wrong, _ = interleaved(stalled_births, haunted_place.new(), draws, moment)
    assert wrong == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_zombies_in_100_moments_change_nothing(stalled_births, haunted_place):
    seed = time.time_ns()
    draws = random.Random(seed)
    fates, wrong = Counter(), []
    for number in range(100):
        found, fate = interleaved(stalled_births, haunted_place.new(), draws, 1 + number % MOMENTS)
        wrong += found
        fates[fate] += 1
    print(f"\nseed {seed}, {haunted_place.kind}: 100 interleavings {dict(fates)}: {wrong}")
    assert wrong == []


def interleaved(births, checkpoints, draws, moment):
    """Both begin from step 10 and save: what is wrong then, and what became of the first."""
    births.run(checkpoints.gang(1, 1, 1, file_bytes=FILE_BYTES))
    sizes = draws.choice((1, 2)), draws.choice((1, 2))
    stopped = draws.randrange(sizes[0])
    point = ["change", moment, draws.choice(("before", "after")), "SIGSTOP"]
    zombie = checkpoints.gang(
        2, sizes[0], 2, file_bytes=FILE_BYTES, timeout_s=1.0, worker={stopped: {"point": point}}
    )
    pids = births.start(zombie)
    (state,) = births.wait([pids[stopped]])
    later = births.run(checkpoints.gang(3, sizes[1], 2))
    held = commits(checkpoints)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    told = births.wait([pid for pid in pids if pid != pids[stopped]])
    told += births.wait([pids[stopped]]) if state.code == "stopped" else [state]
    wrong = judge(checkpoints, later, held) + [f"{each}" for each in told if each.code != 0]
    wrong += collected(births, checkpoints)
    fate = "ended before" if state.code != "stopped" else told[-1].error.partition(":")[0]
    return [f"moment {moment} {sizes} {point}: {each}" for each in wrong], fate or "not told"


def commits(checkpoints):
    """Step -> generation and fence of its COMMIT."""
    entries = {e.key: e.generation for e in checkpoints.store.list() if e.key.endswith("/COMMIT")}
    return {
        step: (entries[commit_key(step)], checkpoints.commit(step).fence)
        for step in checkpoints.committed()
    }


def judge(checkpoints, later, held):
    """What the later run has committed stands, and nothing else is offered."""
    begun = later[0].restored
    if begun is None:
        return [f"the later run: {later}"]
    wrong = [str(e) for e in later if (e.code, e.saved) != (0, (begun + 10, begun + 20))]
    now = commits(checkpoints)
    wrong += [
        f"COMMIT of step {step} was {held[step]} and is {now.get(step)}"
        for step, (_, fence) in held.items()
        if fence == 3 and now.get(step) != held[step]
    ]
    shown = {info.step: info.state for info in list_steps(checkpoints.store)}
    wrong += [
        f"step {step} of the zombie is {shown[step]}"
        for step, (_, fence) in now.items()
        if fence == 2 and step > begun and shown[step] != "ROLLED_BACK"
    ]
    restored = checkpoints.read()
    if (restored.step, restored.skipped) != (begun + 20, ()) or now[restored.step][1] != 3:
        wrong.append(f"step {restored.step} is restored, skipped are {restored.skipped}")
    if not is_right(checkpoints, restored):
        wrong.append(f"step {restored.step} is not what was saved")
    return wrong


def collected(births, checkpoints):
    """One more run: it goes on from there, and nothing is left of the zombie."""
    expected = checkpoints.read().step
    (told,) = births.run(checkpoints.gang(4, 1, 2))
    wrong = [] if (told.code, told.restored) == (0, expected) else [f"then {told}"]
    if leaked := checkpoints.leaked():
        wrong.append(f"left over are {sorted(leaked)}")
    return wrong
