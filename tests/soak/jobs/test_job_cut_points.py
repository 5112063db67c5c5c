"""A supervisor that dies, stops or is not answered at each of its calls: one job, one slice.

Every call of the supervisor to the bucket, to the Cloud TPU API and to the workers is a cut point,
before it is sent and after it took effect.
"""

import functools
from collections import Counter
from dataclasses import replace

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


SERIAL = History(workers=2, provisioning_s=5.0, program=SHORT)
TOGETHER = replace(SERIAL, at_once=3)
"""Three zones grant their slices at the same moment."""
ONE_OUT = replace(SERIAL, at_once=2, zones_out_s=(20.0,))
"""The first of two zones has nothing while the other one grants."""


def cut(life, kind, number):
    """One of the first supervisor's calls is cut; when it stops, another one takes over."""
    events = (Event(0.0, kind, number, CUTS[kind]), *([SECOND] if "stops" in kind else []))
    return replace(life, seed=number, events=events)


@functools.cache
def calls_of(life):
    return tell(life).calls


def wrong_at(kind, number, life=SERIAL):
    """What goes wrong when that call is cut."""
    history = cut(life, kind, number)
    told = tell(history)
    wrong = list(told.wrong)
    if told.record.state != "SUCCEEDED":
        wrong.append(f"{told.record.state}: {told.record.why}")
    if len(told.created) > life.at_once or len(told.record.attempts) != 1:
        wrong.append(f"created {told.created}")
    return [*wrong, reproducer(history)] if wrong else []


@pytest.mark.parametrize("kind", CUTS)
def test_some_cut_points_of_a_supervisor_leave_one_job_and_no_slice(kind):
    calls = calls_of(SERIAL)
    for number in range(list(CUTS).index(kind), calls, calls // 2):
        assert not wrong_at(kind, number)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_cut_point_of_a_supervisor_leaves_one_job_and_no_slice():
    points, failed = Counter(), []
    for kind in CUTS:
        for number in range(calls_of(SERIAL)):
            points[kind] += 1
            failed += [wrong] if (wrong := wrong_at(kind, number)) else []
    print(f"\n{points.total()} cut points: {dict(points)}, {len(failed)} wrong")
    assert not failed, "\n".join("\n".join(each) for each in failed[:5])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("life", [TOGETHER, ONE_OUT], ids=["together", "one-out"])
def test_every_cut_point_of_a_search_leaves_one_slice_chosen_and_no_request(life):
    failed, points = [], 0
    for kind in CUTS:
        for number in range(calls_of(life)):
            points += 1
            failed += [wrong] if (wrong := wrong_at(kind, number, life)) else []
    print(f"\n{points} cut points, {len(failed)} wrong")
    assert not failed, "\n".join("\n".join(each) for each in failed[:5])
