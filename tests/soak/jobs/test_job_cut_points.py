"""A supervisor that dies, stops or is not answered at each of its calls: one job, one slice.

Every call of the supervisor to the bucket, to the Cloud TPU API and to the workers is a cut point,
before it is sent and after it took effect.
"""

import functools
from collections import Counter

import pytest

from soak.jobs.world.job_fates import Event
from soak.jobs.world.job_histories import History, reproducer, tell
from soak.jobs.world.job_training import Program

SHORT = Program(steps=6, save_every=2)
CUTS = {
    "supervisor dies at call": 1.0,
    "supervisor dies after call": 1.0,
    "supervisor stops at call": 60.0,
    "supervisor stops after call": 60.0,
    "call refused": 0.0,
    "call answer lost": 0.0,
}
SECOND = Event(1.0, "second supervisor")


def cut(kind, number):
    """One of the first supervisor's calls is cut; when it stops, another one takes over."""
    events = (Event(0.0, kind, number, CUTS[kind]), *([SECOND] if "stops" in kind else []))
    return History(seed=number, workers=2, provisioning_s=5.0, program=SHORT, events=events)


@functools.cache
def calls_of_a_life():
    return tell(History(workers=2, provisioning_s=5.0, program=SHORT)).calls


def wrong_at(kind, number):
    """What goes wrong when that call is cut."""
    history = cut(kind, number)
    told = tell(history)
    wrong = list(told.wrong)
    if told.record.state != "SUCCEEDED":
        wrong.append(f"{told.record.state}: {told.record.why}")
    if len(told.created) != 1:
        wrong.append(f"created {told.created}")
    return [*wrong, reproducer(history)] if wrong else []


@pytest.mark.parametrize("kind", CUTS)
def test_some_cut_points_of_a_supervisor_leave_one_job_and_no_slice(kind):
    calls = calls_of_a_life()
    for number in range(list(CUTS).index(kind), calls, calls // 2):
        assert not wrong_at(kind, number)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_cut_point_of_a_supervisor_leaves_one_job_and_no_slice():
    points, failed = Counter(), []
    for kind in CUTS:
        for number in range(calls_of_a_life()):
            points[kind] += 1
            failed += [wrong] if (wrong := wrong_at(kind, number)) else []
    print(f"\n{points.total()} cut points: {dict(points)}, {len(failed)} wrong")
    assert not failed, "\n".join("\n".join(each) for each in failed[:5])
