"""Where the time and the money of scripted jobs went, beside tables that were made by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.metrics.goodput.accounting import Billed, account
from tpuctl.metrics.goodput.time_parts import TimePart, time_parts
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    JobRecord,
    JobSpec,
    JobState,
    SaveWait,
    Timeouts,
)
from tpuctl.models.search import Candidate
from tpuctl.operations.slices import spending

NEVER = 10_000.0
SPEC = JobSpec("digits", "python3 train.py")
HANGING = replace(SPEC, timeouts=Timeouts(hang_s=300.0))
DONE, PREEMPTED = AttemptOutcome.SUCCEEDED, AttemptOutcome.PREEMPTED


def attempt(number: int, **changes) -> Attempt:
    at_first = Attempt(
        number=number, zone="us-west4-a", node=f"digits-a{number}", state=AttemptState.ENDED,
        owned=True, accelerator_type="v5litepod-16", queued_resource=f"digits-a{number}",
    )  # fmt: skip
    return replace(at_first, **changes)


def job(*attempts: Attempt, ended_s: float | None = None, **changes) -> JobRecord:
    state = JobState.RUNNING if ended_s is None else JobState.SUCCEEDED
    at_first = JobRecord(
        "digits-1", SPEC, "ada@home", 0.0, "us-west4-a", "v5litepod-16", state=state,
        ended_s=ended_s, attempts=attempts,
    )  # fmt: skip
    return replace(at_first, **changes)


WHOLE = dict(requested_s=10.0, provisioning_s=70.0, ready_s=100.0, started_s=130.0)
"""Waits a minute, is made in 30 s, prepares for 30 s."""
TRAINED = attempt(
    1, **WHOLE, first_step_s=190.0, ended_s=1190.0, deleted_s=1220.0, last_step=100, outcome=DONE
)
LOST = attempt(
    1, **WHOLE, first_step_s=190.0, ended_s=690.0, deleted_s=690.0, last_step=50,
    saved_s=590.0, outcome=PREEMPTED,
)  # fmt: skip
AGAIN = attempt(
    2, requested_s=700.0, provisioning_s=760.0, ready_s=790.0, started_s=820.0, first_step_s=880.0,
    ended_s=1480.0, deleted_s=1500.0, resume_step=40, last_step=100, outcome=DONE,
)  # fmt: skip


def waits(*rows: tuple[float, float]) -> tuple[SaveWait, ...]:
    """From the start of the program on, which is at 130 s: the end of a wait, and all up to it."""
    return tuple(SaveWait(after_s, waited_s) for after_s, waited_s in rows)


BEGAN = dict(waiting=70, provisioning=30, preparing=30, compiling=60)
TWICE = dict(waiting=130, provisioning=60, preparing=60, compiling=120, recovering=10)

HISTORIES = {
    "it waits for its first slice": (job(), 300.0, {"waiting": 300}),
    "its request waits": (job(attempt(1, requested_s=10.0, ended_s=None)), 50.0, {"waiting": 50}),
    "its slice is made": (
        job(attempt(1, requested_s=10.0, provisioning_s=70.0)), 80.0,
        {"waiting": 70, "provisioning": 10},
    ),
    "it prepares": (
        job(attempt(1, requested_s=10.0, provisioning_s=70.0, ready_s=100.0)), 110.0,
        {"waiting": 70, "provisioning": 30, "preparing": 10},
    ),
    "it runs and has told no step": (
        job(attempt(1, **WHOLE)), 140.0, {**BEGAN, "compiling": 0, "training": 10},
    ),
    "it trains": (
        job(attempt(1, **WHOLE, first_step_s=190.0)), 290.0, {**BEGAN, "training": 100},
    ),
    "it succeeded": (job(TRAINED, ended_s=1190.0), NEVER, {**BEGAN, "training": 1000, "idle": 30}),
    "its slice is still being deleted": (
        job(replace(TRAINED, deleted_s=None), ended_s=1190.0), 1250.0,
        {**BEGAN, "training": 1000, "idle": 60},
    ),
    "it was preempted and went on from a checkpoint": (
        job(LOST, AGAIN, ended_s=1480.0), NEVER,
        {**TWICE, "training": 400 + 600, "lost": 100, "idle": 20},
    ),
    "it was preempted and saved in time": (
        job(LOST, replace(AGAIN, resume_step=50), ended_s=1480.0), NEVER,
        {**TWICE, "training": 500 + 600, "idle": 20},
    ),
    "it was preempted and began again": (
        job(LOST, replace(AGAIN, resume_step=0), ended_s=1480.0), NEVER,
        {**TWICE, "training": 600, "lost": 500, "idle": 20},
    ),
    "its first step began before it was told, as its table says": (
        job(replace(TRAINED, step_times={"1": 60.0, "2": 70.0, "100": 1050.0}), ended_s=1190.0),
        NEVER, {**BEGAN, "compiling": 50, "training": 1010, "idle": 30},
    ),
    "its program ended before its logs were in the bucket": (
        job(replace(TRAINED, ran_s=1030.0), ended_s=1190.0), NEVER,
        {**BEGAN, "training": 970, "idle": 30 + 30},
    ),
    "its steps took longer at the end, as its table says": (
        job(
            replace(LOST, step_times={"1": 60.0, "2": 63.0, "30": 147.0, "50": 550.0}), AGAIN,
            ended_s=1480.0,
        ), NEVER,
        # The mean of a step is 10 s; step 40 was told half way from 147 to 550 s.
        {**TWICE, "compiling": 50 + 60, "training": 298.5 + 600, "lost": 211.5, "idle": 20},
    ),
    "it waited for its checkpoints": (
        job(replace(TRAINED, save_waits=waits((160.0, 10.0), (460.0, 25.0))), ended_s=1190.0),
        NEVER, {**BEGAN, "training": 975, "saving": 25, "idle": 30},
    ),
    "it waits for a checkpoint, and has for most of the time": (
        job(attempt(1, **WHOLE, first_step_s=190.0, save_waits=waits((160.0, 70.0)))), 290.0,
        {**BEGAN, "training": 30, "saving": 70},
    ),
    "it was preempted, and waited for checkpoints in what is kept and in what is lost": (
        # Step 40 of 50 is kept, which was at 590 s: 460 s after the start of the program.
        job(
            replace(LOST, save_waits=waits((200.0, 8.0), (465.0, 20.0), (540.0, 50.0))),
            replace(AGAIN, save_waits=waits((100.0, 5.0))), ended_s=1480.0,
        ), NEVER,
        {**TWICE, "training": 400 + 600 - 15 - 5, "saving": 8 + 7 + 5, "lost": 100, "idle": 20},
    ),
    "it was preempted and saved in time, for which it waited": (
        job(
            replace(LOST, save_waits=waits((560.0, 30.0))), replace(AGAIN, resume_step=50),
            ended_s=1480.0,
        ), NEVER, {**TWICE, "training": 470 + 600, "saving": 30, "idle": 20},
    ),
    "it waited for its last checkpoint after its last step": (
        job(
            replace(TRAINED, ran_s=1060.0, save_waits=waits((1060.0, 40.0))), ended_s=1190.0
        ), NEVER, {**BEGAN, "training": 960, "saving": 40, "idle": 30},
    ),
    "its waits are told before its first step, and twice as long as the time": (
        job(replace(TRAINED, save_waits=waits((30.0, 90.0), (80.0, 400.0))), ended_s=1190.0),
        NEVER, {**BEGAN, "training": 980, "saving": 20, "idle": 30},
    ),
    "it tells every tenth step, and where it went on": (
        job(
            replace(LOST, step_times={"10": 60.0, "20": 160.0, "50": 460.0}),
            replace(AGAIN, step_times={"50": 60.0, "60": 160.0, "100": 560.0}),
            ended_s=1480.0,
        ), NEVER,
        {**TWICE, "compiling": 0, "training": 360 + 660, "lost": 560 - 360, "idle": 20},
    ),
    "it hung after its last save": (
        job(
            replace(LOST, outcome=AttemptOutcome.HUNG), replace(AGAIN, resume_step=50),
            ended_s=1480.0, spec=HANGING,
        ), NEVER, {**TWICE, "training": 200 + 600, "lost": 300, "idle": 20},
    ),
    "it hung, and a part of what it did before is done again": (
        job(replace(LOST, outcome=AttemptOutcome.HUNG), AGAIN, ended_s=1480.0, spec=HANGING),
        NEVER, {**TWICE, "training": 160 + 600, "lost": 340, "idle": 20},
    ),
    "it hung and ended with that": (
        job(replace(LOST, outcome=AttemptOutcome.HUNG), ended_s=690.0, spec=HANGING), NEVER,
        {**BEGAN, "training": 200, "lost": 300},
    ),
    "the newest checkpoint was damaged, and it went on from an older one": (
        job(replace(LOST, saved_s=690.0), replace(AGAIN, resume_step=20), ended_s=1480.0), NEVER,
        {**TWICE, "training": 200 + 600, "lost": 300, "idle": 20},
    ),
    "it was preempted and waits again": (
        job(LOST, attempt(2, requested_s=700.0)), 800.0,
        {**BEGAN, "waiting": 170, "training": 500, "recovering": 10},
    ),
    "it tells no steps and succeeded": (
        job(replace(TRAINED, first_step_s=None, last_step=0), ended_s=1190.0), NEVER,
        {**BEGAN, "compiling": 0, "training": 1060, "idle": 30},
    ),
    "it tells no steps and was preempted": (
        job(
            replace(LOST, first_step_s=None, last_step=0, saved_s=None),
            replace(AGAIN, first_step_s=None, last_step=0, resume_step=0), ended_s=1480.0,
        ), NEVER,
        {**TWICE, "compiling": 0, "training": 660, "lost": 560, "idle": 20},
    ),
    "it was stopped, and that took a while": (
        job(replace(TRAINED, stopping_s=1150.0), ended_s=1190.0), NEVER,
        {**BEGAN, "training": 960, "idle": 40 + 30},
    ),
    "it was cancelled while it waited": (
        job(attempt(1, requested_s=10.0, ended_s=60.0), ended_s=60.0), NEVER, {"waiting": 60},
    ),
    "a zone had no capacity": (
        job(
            attempt(1, requested_s=10.0, ended_s=60.0, outcome=AttemptOutcome.STOCKOUT),
            attempt(2, requested_s=100.0),
        ), 130.0, {"waiting": 50 + 10 + 30, "recovering": 40},
    ),
    "it failed and runs again on the same slice": (
        job(
            replace(LOST, deleted_s=None, outcome=AttemptOutcome.FAILED),
            attempt(
                2, node="digits-a1", ready_s=100.0, started_s=700.0, first_step_s=720.0,
                ended_s=820.0, deleted_s=830.0, resume_step=40, last_step=60,
            ),
            ended_s=820.0,
        ), NEVER,
        {**BEGAN, "preparing": 30 + 10, "compiling": 60 + 20, "training": 400 + 100, "lost": 100,
         "idle": 10},
    ),
    "an older tpuctl noted neither the first step nor the service": (
        job(replace(TRAINED, first_step_s=None, provisioning_s=None), ended_s=1190.0), NEVER,
        {"waiting": 100, "preparing": 30, "training": 1060, "idle": 30},
    ),
    "it has a slice of somebody else's": (
        job(attempt(1, owned=False, queued_resource=None, ready_s=5.0, started_s=20.0,
                    first_step_s=30.0, ended_s=130.0), ended_s=130.0), NEVER,
        {"waiting": 5, "preparing": 15, "compiling": 10, "training": 100},
    ),
    "two requests were granted, and one was withdrawn": (
        job(
            replace(TRAINED, others=(
                Candidate("digits-a1-2", "us-central1-a", "v5litepod-16", active_s=95.0,
                          withdrawn_s=100.0, deleted_s=115.0),
            )),
            ended_s=1190.0,
        ), NEVER, {**BEGAN, "training": 1000, "idle": 30},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_the_parts_are_those_of_the_hand_made_table_and_add_up_to_the_bill(name):
    record, now_s, table = HISTORIES[name]
    found = spending.goodput_of(record, now_s)
    assert {part: seconds for part, seconds, _ in found.parts} == pytest.approx(
        {part: seconds for part, seconds in table.items() if seconds}
    )
    bill = spending.spending_of(record, now_s).usd
    assert sum(each.usd or 0.0 for each in found.parts) == pytest.approx(bill or 0.0, abs=0.001)
    good_s = table.get("training", 0)
    assert found.share == pytest.approx(good_s / sum(table.values()))


def test_the_largest_losses_come_first():
    record, now_s, _ = HISTORIES["it was preempted and went on from a checkpoint"]
    losses = spending.goodput_of(record, now_s).losses
    assert [each.part for each in losses[:3]] == [
        TimePart.WAITING,
        TimePart.COMPILING,
        TimePart.LOST,
    ]


def test_without_a_price_the_seconds_are_told_and_the_dollars_are_not():
    spans = time_parts(job(TRAINED, ended_s=1190.0), NEVER, 1220.0)
    found = account(spans, [Billed(100.0, 1220.0, None)])
    assert found.wall_s == 1220.0
    assert {each.usd for each in found.parts} == {None}


TIMES = st.one_of(st.none(), st.floats(-100.0, 5000.0))
WAITS = st.floats(0.0, 3000.0)
ATTEMPTS = st.builds(
    lambda **times: times,
    requested_s=TIMES, provisioning_s=TIMES, ready_s=TIMES, started_s=TIMES, first_step_s=TIMES,
    stopping_s=TIMES, ended_s=TIMES, saved_s=TIMES, resume_step=st.integers(0, 50),
    last_step=st.integers(0, 50),
    save_waits=st.lists(st.builds(SaveWait, WAITS, WAITS), max_size=4).map(tuple),
)  # fmt: skip


@given(st.lists(ATTEMPTS, max_size=5), TIMES, st.floats(0.0, 6000.0))
def test_spans_follow_each_other_without_a_gap_whatever_a_record_says(attempts, ended_s, now_s):
    made = [attempt(number, **times) for number, times in enumerate(attempts, 1)]
    record = job(*made, ended_s=ended_s)
    spans = time_parts(record, now_s, 0.0)
    end_s = max(0.0, now_s if ended_s is None else ended_s)
    assert sum(span.seconds for span in spans) == pytest.approx(end_s)
    assert all(span.seconds > 0 for span in spans)
    assert all(one.end_s == two.begin_s for one, two in zip(spans, spans[1:], strict=False))
