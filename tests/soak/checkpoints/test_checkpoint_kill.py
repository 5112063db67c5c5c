"""kill -9 of a process in every phase of a save: what was committed stands, whole.

The last step that has a COMMIT is restored bit by bit, a step that has none is offered to nobody,
the next run saves the same step again, and one clean-up later nothing is left of the dead. A few of
the points in every run, all of them in the soak.
"""

import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import product

import pytest
from clouds import STORE_KINDS

from soak.checkpoints.checkpoint_gangs import nursery, place
from soak.checkpoints.checkpoint_judge import go_on, look

BEFORE, MIDDLE, AFTER = "before", "middle", "after"
DEADLY = 30


@dataclass(frozen=True)
class Case:
    """The `nth` time that a worker comes to a phase of its last save."""

    phase: str
    when: str
    nth: int = 1
    worker_id: int = 0
    worker_count: int = 1
    keep: int = 1

    @property
    def name(self) -> str:
        """How the scorecard counts it."""
        if self.phase == "commit":
            return "COMMIT reply lost" if self.when == AFTER else "COMMIT sent"
        return self.phase


def cases():
    """All of them."""
    for worker_count, worker_id in [(1, 0), *((4, i) for i in range(4))]:
        yield from of_a_part(Case("", "", 1, worker_id, worker_count))
    for workers, keep, when in product((1, 2, 3, 4), (1, 2, 3), (BEFORE, MIDDLE, AFTER)):
        yield Case("commit", when, worker_count=workers, keep=keep)
    for workers, nth, when in product((1, 4), range(1, 7), (BEFORE, AFTER)):
        yield Case("clean-up", when, nth, 0, workers)


def of_a_part(own):
    """Those of what one worker writes."""
    copies, files = (10, 5) if own.worker_count == 1 else (3, 2)
    yield from [replace(own, phase="copy", when=BEFORE, nth=n + 1) for n in range(copies)]
    for when in (BEFORE, MIDDLE, AFTER):
        yield from [replace(own, phase="upload", when=when, nth=n + 1) for n in range(files)]
        yield from [replace(own, phase="done", when=when, keep=keep) for keep in (1, 3)]


FEW = [
    ("directory", Case("copy", BEFORE, 3)),
    ("directory", Case("upload", MIDDLE, 2)),
    ("directory", Case("done", AFTER, worker_id=1, worker_count=2)),
    ("directory", Case("commit", MIDDLE, worker_count=2)),
    ("bucket", Case("upload", MIDDLE, 2)),
    ("bucket", Case("commit", AFTER)),
    ("bucket", Case("clean-up", BEFORE, 2)),
]
"""Each phase, and what a bucket does otherwise than a directory."""


@pytest.fixture(scope="module")
def births(tmp_path_factory):
    with nursery(tmp_path_factory.mktemp("births")) as found:
        yield found


@pytest.fixture(scope="module", params=STORE_KINDS)
def mortal_place(request, tmp_path_factory):
    with place(request.param, tmp_path_factory.mktemp("mortal")) as found:
        yield found


@pytest.mark.parametrize(
    ("mortal_place", "case"), FEW, indirect=["mortal_place"], ids=lambda each: str(each)[:40]
)
def test_killed_at_a_point_of_a_save(births, mortal_place, case):
    assert killed(births, mortal_place.new(), case, random.Random(1), is_alone=False) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_at_every_point_of_a_save(births, mortal_place):
    seed = time.time_ns()
    draws = random.Random(seed)
    points, wrong = Counter(), []
    for number, case in enumerate(cases()):
        is_alone = number % 4 == 0
        wrong += killed(births, mortal_place.new(), case, draws, is_alone=is_alone)
        points[case.name] += 1
    print(f"\nseed {seed}, {mortal_place.kind}: {points.total()} points {dict(points)}: {wrong}")
    assert wrong == []
    assert min(points.values()) >= 10  # and as many in the other place
    assert points.total() >= 75


def killed(births, checkpoints, case, draws, *, is_alone):
    """Kill a worker there, alone or its gang with it; what is wrong then."""
    births.run(checkpoints.gang(1, case.worker_count, 2, keep=case.keep))
    point = [case.phase, case.nth, case.when, "SIGKILL"]
    gang = checkpoints.gang(
        2, case.worker_count, 1, keep=case.keep, worker={case.worker_id: {"point": point}},
        timeout_s=5.0 if is_alone else 60.0,
    )  # fmt: skip
    pids = births.start(gang)
    (victim,) = births.wait([pids[case.worker_id]])
    others = [pid for pid in pids if pid != pids[case.worker_id]]
    if not is_alone:
        for pid in others:
            os.kill(pid, signal.SIGKILL)
    births.wait(others)
    if victim.code != -signal.SIGKILL:
        return [f"{case}: was not killed: {victim}"]
    wrong = look(checkpoints) + whether_it_came_in_time(checkpoints, case)
    wrong += go_on(births, checkpoints, case.keep, draws)
    return [f"{case}: {each}" for each in wrong]


def whether_it_came_in_time(checkpoints, case):
    """Of worker 0 alone it is known whether COMMIT was there before the end."""
    is_late = case.phase == "clean-up" or (case.phase, case.when) == ("commit", AFTER)
    committed = max(checkpoints.committed())
    if case.worker_id == 0 and is_late != (committed == DEADLY):
        return [f"step {committed} is the newest"]
    return []
