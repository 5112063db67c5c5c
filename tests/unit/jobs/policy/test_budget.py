"""What a job may use of slices."""

from dataclasses import replace

import pytest

from tpuctl.jobs.policy import budget
from tpuctl.jobs.policy.actions import StopWorkers
from tpuctl.jobs.policy.observation import ABSENT
from tpuctl.models.job import Attempt, AttemptState, Budget, Phase
from tpuctl.models.limits.slice_lifetime import TTL_LABEL
from tpuctl.models.slice_options import SliceOptions
from unit.jobs.job_steps import A1, RAN, asked, job, lived, seen

UP = {"phase": Phase.RUNNING}
STOPPED = {"phase": Phase.ENDED, "stage": "run", "closed": True, "signal": 15, "stopped": True}


def attempt(number: int, ready_s: float, ended_s: float | None) -> Attempt:
    return Attempt(
        number, "z", "n", AttemptState.ENDED, owned=True, ready_s=ready_s, ended_s=ended_s
    )


def test_hours_are_those_of_slices_that_were_ready():
    waited = replace(attempt(3, 0.0, 99999.0), ready_s=None)
    record = replace(job(), attempts=(attempt(1, 0.0, 3600.0), attempt(2, 7200.0, 9000.0), waited))
    assert budget.used_hours(record, 20000.0) == 1.5
    running = replace(record, attempts=(*record.attempts[:2], attempt(3, 10000.0, None)))
    assert budget.used_hours(running, 13600.0) == 2.5
    assert budget.used_hours(replace(running, retried_after=2), 13600.0) == 1.0


@pytest.mark.parametrize(
    ("given", "price", "expected"),
    [
        (Budget(), 10.0, None),
        (Budget(hours=2.0), None, None),
        (Budget(hours=1.5), None, "budget: 1.5 h of slices are used up"),
        (Budget(usd=15.0), 10.0, "budget: 15 USD are used up (90 min at 10.00 USD/h)"),
        (Budget(usd=16.0), 10.0, None),
        (Budget(usd=1.0), None, None),
    ],
)
def test_either_limit_ends_it(given, price, expected):
    record = replace(job(budget=given), usd_per_hour=price, attempts=(attempt(1, 0.0, 5400.0),))
    assert budget.stop_reason(record, 9e9) == expected


def test_a_job_whose_budget_is_used_up_is_stopped_with_grace_and_failed():
    record = job(budget=Budget(hours=1.0))
    step = lived(record, *RAN, seen(3602.0, UP, UP))
    assert isinstance(step.actions[-1], StopWorkers)
    assert not step.actions[-1].dump
    step = lived(step.record, seen(3603.0, STOPPED, STOPPED))
    assert (step.record.state, step.record.why) == (
        "FAILED",
        "budget: 1 h of slices are used up",
    )


def test_no_other_slice_is_requested_with_nothing_left():
    record = lived(job(budget=Budget(hours=1.0)), *RAN, seen(3601.0, UP, UP)).record
    gone = lived(record, seen(3602.5, UP, UP, node="PREEMPTED", requests={A1: "SUSPENDED"}))
    late = lived(gone.record, asked(3603.0, a1=ABSENT), asked(3604.0)).record
    assert (late.state, len(late.attempts)) == ("FAILED", 1)


def with_ttl(ttl: str):
    record = job()
    options = SliceOptions(labels={TTL_LABEL: ttl})
    resources = replace(record.spec.resources, options=options)
    return replace(record, spec=replace(record.spec, resources=resources))


@pytest.mark.parametrize(
    ("ttl", "last_s"), [("4h", 4 * 3600 - 120), ("10m", 540), ("10s", 9), ("soon", None)]
)
def test_a_program_is_told_to_end_a_while_before_its_slice_is_deleted(ttl, last_s):
    record = with_ttl(ttl)
    if last_s is None:
        assert budget.ttl_reason(record, 1000.0, 9e9) is None
        return
    assert budget.ttl_reason(record, 1000.0, 1000.0 + last_s - 0.1) is None
    assert budget.ttl_reason(record, 1000.0, 1000.0 + last_s) == (
        f"ttl: the {ttl} of its slice are over"
    )
    assert budget.ttl_reason(record, None, 9e9) is None, "its creation is not known"


def test_a_job_whose_slice_ends_is_stopped_with_grace_and_failed():
    step = lived(with_ttl("1h"), *RAN, seen(3482.0, UP, UP, created_s=1.0))
    assert StopWorkers(step.record.attempt) in step.actions
    gone = seen(3490.0, STOPPED, STOPPED, created_s=1.0)
    ended = lived(step.record, gone, asked(3500.0, a1=ABSENT)).record
    assert (ended.state, ended.attempt.reason) == ("FAILED", "ttl: the 1h of its slice are over")


@pytest.mark.parametrize(
    ("given", "price", "left"),
    [
        (Budget(), 10.0, None),
        (Budget(usd=40.0), 10.0, 25.0),
        (Budget(hours=2.0), 10.0, 5.0),
        (Budget(hours=2.0, usd=18.0), 10.0, 3.0),
        (Budget(hours=1.0), 10.0, 0.0),
        (Budget(hours=2.0), None, None),
    ],
)
def test_what_is_left_of_a_budget_is_what_its_slices_may_still_cost(given, price, left):
    record = replace(job(budget=given), usd_per_hour=price, attempts=(attempt(1, 0.0, 5400.0),))
    assert budget.remaining_usd(record, 9e9) == pytest.approx(left)
