"""What a job's own saves and preemptions say about how often it should save."""

import pytest

from tpuctl.errors import PreconditionError
from tpuctl.models.job import Attempt, AttemptOutcome, AttemptState, JobRecord, JobSpec, Resources
from tpuctl.operations.checkpoints.advise import (
    advise_interval,
    measure_losses,
    measure_saves,
)
from tpuctl.operations.checkpoints.interval import SLOWDOWN
from unit.operations.checkpoints.checkpoint_views import T, view

HOUR_S = 3600.0


def attempt(number, hours, outcome=AttemptOutcome.PREEMPTED, **changes):
    """READY for so many hours, its program began 100 s after that."""
    ready_s = T + number * 10 * HOUR_S
    return Attempt(
        number=number, zone="us-west4-a", node=f"n{number}", state=AttemptState.ENDED, owned=True,
        ready_s=ready_s, started_s=ready_s + 100, ended_s=ready_s + hours * HOUR_S,
        outcome=outcome, **changes,
    )  # fmt: skip


def job(*attempts):
    spec = JobSpec("lm", "python3 train.py", resources=Resources("v5litepod-16", use_spot=True))
    return JobRecord("lm-1", spec, "ada", T, "us-west4-a", "v5litepod-16", attempts=attempts)


TWICE = job(
    attempt(1, 4, last_step=1000), attempt(2, 6, resume_step=960, last_step=2000),
    attempt(3, 2, AttemptOutcome.SUCCEEDED, resume_step=1990, last_step=3000),
)  # fmt: skip
EVERY_100 = [view(step, committed_s=T + step * 2.0) for step in (2000, 2100, 2200)]


def test_the_interval_is_that_between_saves_of_one_run():
    found = measure_saves([view(100, fence=1), *EVERY_100])
    assert (found.every, found.interval_s, found.step_s) == (100, 200, 2)


def test_what_a_save_costs_is_the_wait_and_slower_steps_beside_it():
    found = measure_saves([view(1, save_s=10.0, blocked_s=1.0)])
    assert found.cost_s == pytest.approx(1 + 9 * (1 - 1 / SLOWDOWN))


def test_a_save_of_which_no_wait_is_known_is_reckoned_as_all_of_it():
    found = measure_saves([view(1, save_s=10.0, blocked_s=None)])
    assert (found.blocked_s, found.cost_s) == (None, 10)


def test_slices_that_were_taken_away_are_counted_over_the_time_they_were_there():
    found = measure_losses(TWICE, now_s=T)
    assert (found.preemptions, found.active_s, found.mean_s) == (2, 12 * HOUR_S, 6 * HOUR_S)
    assert (found.restart_s, found.redone_steps) == (100, 40 + 10)


def test_an_attempt_that_goes_on_counts_until_now():
    running = Attempt(1, "z", "n", AttemptState.RUNNING, owned=True, ready_s=T)
    found = measure_losses(job(running), now_s=T + 7200)
    assert (found.active_s, found.preemptions, found.mean_s) == (7200, 0, 7200)


def test_the_advice_loses_less_than_what_is_done_now():
    found = advise_interval(TWICE, EVERY_100, now_s=T)
    assert found.best_every == round(found.best_s / 2)
    assert found.best.share < found.now.share
    assert found.best.usd == pytest.approx(found.best.hours * 9.712)
    assert found.redone_hours == pytest.approx(50 * 2 / HOUR_S)
    assert found.daly_s < found.young_s


def test_steps_that_another_job_saved_there_tell_nothing_of_this_one():
    others = [view(step, save_s=99.0, job="lm-0") for step in (1, 2, 3)]
    mine = [view(4, save_s=2.0, job="lm-1")]
    assert advise_interval(TWICE, [*others, *mine], now_s=T).saving.save_s == 2
    assert advise_interval(TWICE, others, now_s=T).saving.save_s == 99, "better than nothing"


def test_none_is_advised_more_often_than_a_save_takes():
    slow = [view(step, committed_s=T + step, save_s=9e4, blocked_s=0.0) for step in (1, 2)]
    found = advise_interval(TWICE, slow, now_s=T)
    assert found.best_s == 9e4 > found.daly_s


def test_a_save_that_takes_no_time_is_advised_at_every_step():
    free = [view(step, committed_s=T + step * 60.0, save_s=0.0, blocked_s=0.0) for step in (1, 2)]
    found = advise_interval(TWICE, free, now_s=T)
    assert (found.best_every, found.best_s, found.best) == (1, 60, found.now)


def test_one_save_alone_says_no_interval_and_still_what_would_be_best():
    found = advise_interval(TWICE, EVERY_100[:1], now_s=T)
    assert (found.now, found.best_every, found.redone_hours) == (None, None, None)
    assert found.best.share > 0


@pytest.mark.parametrize(
    ("record", "steps", "message"),
    [
        (TWICE, [view(1, save_s=None)], "how long its save took"),
        (TWICE, [], "how long its save took"),
        (job(), EVERY_100, "has not had a slice yet"),
    ],
)
def test_what_cannot_be_reckoned_is_said(record, steps, message):
    with pytest.raises(PreconditionError, match=message):
        advise_interval(record, steps, now_s=T)
