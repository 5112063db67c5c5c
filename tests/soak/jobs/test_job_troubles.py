"""One trouble at a time, in a universe whose hours take milliseconds: what a job makes of it."""

import pytest

from soak.jobs.world.job_fates import NEVER_S, Event
from soak.jobs.world.job_histories import History, reproducer, tell
from soak.jobs.world.job_training import Program
from soak.jobs.world.job_universe import World
from soak.jobs.world.virtual_time import Universe

YEARS_S = 3e8


def ended(*events, **asked):
    """The record and the story of a history that must not go wrong."""
    history = History(events=events, **asked)
    told = tell(history)
    assert not told.wrong, [*told.wrong, reproducer(history)]
    return told


@pytest.mark.parametrize(
    "event",
    [
        Event(30.0, "cloud refused", 0, 600.0),
        Event(30.0, "cloud stalled", 0, 600.0),
        Event(3.0, "cloud answer lost", 0, 120.0),
        Event(30.0, "storage refused", 0, 120.0),
        Event(24.0, "storage stalled", 0, 120.0),
        Event(30.0, "worker is cut off", 1, 10.0),
        Event(30.0, "clock jumps", 0, YEARS_S),
        Event(30.0, "clock jumps", 1, YEARS_S),
        Event(30.0, "supervisor stops", 0, 3600.0),
        Event(30.0, "supervisor dies", 0, 5.0),
    ],
    ids=lambda event: f"{event.kind} {event.number}",
)
def test_what_passes_costs_no_attempt(event):
    told = ended(event)
    assert told.record.state == "SUCCEEDED"
    assert len(told.record.attempts) == len(told.created) == 1


@pytest.mark.parametrize("notice_s", [0.0, 25.0])
def test_a_preempted_job_goes_on_from_its_last_checkpoint_on_a_new_slice(notice_s):
    told = ended(Event(45.0, "preempted", 0, notice_s), program=Program(steps=30, save_every=5))
    first, second = told.record.attempts
    assert (first.outcome, second.outcome) == ("preempted", "succeeded")
    assert second.resume_step >= 5
    if notice_s:  # the program saved when it was told
        assert second.resume_step == first.last_step


def test_a_preempted_slice_of_two_costs_both_and_both_are_made_anew():
    told = ended(Event(45.0, "preempted", 1), slices=2)
    assert [attempt.outcome for attempt in told.record.attempts] == ["preempted", "succeeded"]
    assert [attempt.worker_count for attempt in told.record.attempts] == [4, 4]


def test_a_worker_that_is_dead_for_good_costs_its_slice():
    told = ended(Event(30.0, "worker dies", 1))
    assert told.record.state == "SUCCEEDED"
    assert len(told.created) == 2


def test_a_worker_that_died_while_nobody_supervised_is_found_dead():
    told = ended(Event(30.0, "supervisor dies", 0, 120.0), Event(31.0, "worker dies", 0), workers=1)
    assert told.record.state == "SUCCEEDED"
    assert len(told.created) == 2


def test_a_slice_that_somebody_deleted_is_not_made_again():
    told = ended(Event(30.0, "slice deleted"))
    assert told.record.state == "FAILED"
    assert len(told.created) == 1


def test_a_slice_of_the_same_name_is_not_taken_for_the_one_that_was_there():
    told = ended(Event(30.0, "slice replaced", 0, 5.0), own=False)
    assert told.record.attempts[0].outcome != "succeeded"


def test_a_slice_that_never_comes_is_given_up_and_leaves_nothing():
    told = ended(Event(0.0, "stock-out", 0, 2000.0), queue_s=600.0)
    assert told.record.state == "FAILED"


def test_two_supervisors_of_one_owner_do_not_fight():
    told = ended(Event(1.0, "second supervisor"), Event(30.0, "supervisor dies", 0, NEVER_S))
    assert told.record.fence == 2
    assert len(told.record.attempts) == 1
    taken = next(line for line in told.said if "seat1" in line and "supervised here" in line)
    assert float(taken.split()[0]) < 60.0


@pytest.mark.parametrize(("at_s", "within_s"), [(0.0, 200.0), (30.0, 800.0)])
def test_a_supervisor_that_never_reaches_its_bucket_again_ends(at_s, within_s):
    universe = Universe(1)
    world = World(universe, Program(steps=10_000))
    try:
        world.submit(History().spec(), None)
        world.supervise(0)
        universe.run(lambda: False, at_s)
        world.befall("storage refused", for_s=1e9)
        assert universe.run(lambda: not world.seats[0].is_busy, at_s + within_s)
    finally:
        world.bury()


def test_after_the_laptop_is_gone_the_slice_deletes_itself_and_the_result_stays():
    told = ended(Event(30.0, "supervisor dies", 0, NEVER_S), is_abandoned=True)
    assert told.record.state == "SUCCEEDED"
    assert told.leaked_usd == 0
