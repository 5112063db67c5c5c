"""The supervisor and a slice's own switch judge the same record by the same rules.

The switch (`tpuctl/agent/tools/deadman_switch.py`) is shipped alone and repeats three rules of the
supervisor: a program has succeeded, an attempt is overdue, a budget is used up.
"""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tpuctl.agent.tools import deadman_switch
from tpuctl.jobs.policy import attempt_end
from tpuctl.jobs.policy.observation import JobObservation
from tpuctl.jobs.policy.slice_end import AttemptEnd
from tpuctl.jobs.record import record_store
from tpuctl.jobs.workers import protocol
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    Budget,
    JobRecord,
    Phase,
    Timeouts,
    WorkerReport,
)
from unit.jobs.job_steps import job

QUARTER_S = 900.0
WORKERS = 2
LOST = AttemptEnd(AttemptOutcome.PREEMPTED, "node n is PREEMPTED")

some_time_s = st.integers(0, 6).map(lambda quarters: quarters * QUARTER_S)
"""Whole quarters of an hour: limits are met exactly as often as they are passed."""
limits_h = st.none() | st.integers(1, 12).map(lambda quarters: quarters / 4)
prices_usd = st.none() | st.sampled_from([0.0, 0.1, 0.3, 1.2, 9.63])
finals = st.fixed_dictionaries(
    {
        "phase": st.just("ended"),
        "stage": st.sampled_from(["fetch", "mounts", "secrets", "setup", "run"]),
        "exit_status": st.sampled_from([None, 0, 1, 75]),
        "signal": st.sampled_from([None, 9]),
        "stopped": st.booleans(),
        "terminated": st.booleans(),
        "preempted": st.booleans(),
    }
) | st.just({"phase": "ended", "stage": "run", "exit_status": 0, "signal": None})


@st.composite
def lives(draw) -> tuple[JobRecord, float]:
    """A record whose newest attempt prepares or runs, and for how long it has done so."""
    now_s, attempts = 0.0, []
    count = draw(st.integers(1, 4))
    for number in range(1, count + 1):
        ready_s = now_s + draw(some_time_s)
        started_s = draw(st.none() | some_time_s.map(ready_s.__add__))
        attempt = Attempt(
            number, "us-west4-a", f"digits-a{number}", AttemptState.ENDED, owned=True,
            queued_resource=f"digits-a{number}", worker_count=WORKERS,
            ready_s=ready_s, started_s=started_s,
        )  # fmt: skip
        if number < count:
            if started_s is None and draw(st.booleans()):  # it never had a slice
                attempt = replace(attempt, ready_s=None)
            now_s = (started_s or ready_s) + draw(some_time_s)
            attempt = replace(attempt, ended_s=now_s)
        attempts.append(attempt)
    state = AttemptState.PREPARING if started_s is None else AttemptState.RUNNING
    timeouts = Timeouts(setup_s=draw(some_time_s), run_s=draw(st.none() | some_time_s))
    record = replace(
        job(timeouts=timeouts, budget=Budget(draw(limits_h), draw(limits_h))),
        attempts=(*attempts[:-1], replace(attempts[-1], state=state)),
        retried_after=draw(st.integers(0, count - 1)),
        usd_per_hour=draw(prices_usd),
    )
    return record, draw(some_time_s)


@given(lives())
def test_an_attempt_is_overdue_or_overspent_for_both_or_for_neither(life):
    record, stage_s = life
    attempt = record.attempts[-1]
    phase = Phase.PREPARED if attempt.started_s is None else Phase.RUNNING
    reports = tuple(WorkerReport(number, phase) for number in range(WORKERS))
    since_s = attempt.ready_s if attempt.started_s is None else attempt.started_s
    seen = JobObservation(since_s + stage_s, workers=reports)
    supervised = attempt_end.end_of_working(record, replace(attempt, workers=reports), seen)
    stored = json.loads(record_store.encode(record))
    late = deadman_switch.deadline_reason(stored, stage_s)
    alone = late or deadman_switch.budget_reason(stored, stage_s)
    assert (supervised is None) == (alone is None), (supervised, alone)


@given(st.lists(finals | st.just({}), min_size=WORKERS, max_size=WORKERS))
def test_programs_have_succeeded_for_both_or_for_neither(given_finals):
    record = replace(job(), attempts=(Attempt(1, "z", "n", AttemptState.RUNNING, owned=True),))
    attempt = replace(record.attempts[0], worker_count=WORKERS)
    reports = tuple(
        protocol.apply_status(WorkerReport(number), final)
        for number, final in enumerate(given_finals)
        if final
    )
    for report, final in zip(reports, filter(None, given_finals), strict=True):
        assert attempt_end.has_succeeded(report) == deadman_switch.is_success(final)
        assert (attempt_end.end_by_worker(report) is None) == deadman_switch.is_success(final)
    supervised = attempt_end.end_by_final_reports(attempt, LOST, reports)
    alone = deadman_switch.success_reason(json.loads(record_store.encode(record)), given_finals)
    assert (supervised.outcome == AttemptOutcome.SUCCEEDED) == (alone is not None)
