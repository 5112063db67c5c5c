"""One step of a job's life, by example."""

from dataclasses import replace

import pytest

from tpuctl.jobs.policy.actions import (
    ConnectWorkers,
    DeleteSlice,
    RequestSlice,
    StartWorkers,
    StopWorkers,
)
from tpuctl.jobs.policy.observation import ABSENT, JobObservation, SliceRefusal
from tpuctl.jobs.policy.reconcile import UNSEEN_S, reconcile
from tpuctl.jobs.record import status_text as story
from tpuctl.models.job import (
    EventKind,
    JobEvent,
    JobState,
    Phase,
    Restart,
    SaveWait,
    Teardown,
    Timeouts,
)
from unit.jobs.job_steps import A1, A2, ENDED, PREPARED, RAN, WAITED, asked, gang, job, lived, seen


def test_the_intent_is_on_record_before_the_slice_is_requested():
    step = lived(job(), asked(1.0))
    assert step.actions == ()  # the request's absence is not known yet
    step = lived(job(), asked(1.0), asked(1.5, a1=ABSENT))
    assert [type(action) for action in step.actions] == [RequestSlice]
    attempt = step.record.attempt
    assert (attempt.queued_resource, attempt.owned, attempt.request_id is None) == (A1, True, False)
    again = reconcile(step.record, asked(2.0, a1=ABSENT))
    assert again.actions[0].attempt.request_id == attempt.request_id


def test_the_barrier_holds_until_every_worker_is_prepared():
    half = seen(3.0, {"phase": Phase.PREPARED}, {"phase": Phase.PREPARING})
    step = lived(job(), *WAITED, half)
    assert (step.record.state, [type(a) for a in step.actions]) == ("PREPARING", [ConnectWorkers])
    step = lived(job(), *PREPARED)
    assert (step.record.state, [type(a) for a in step.actions]) == (
        "RUNNING",
        [ConnectWorkers, StartWorkers],
    )


def test_success_is_every_worker_ended_with_0_and_its_logs_safe():
    well = {**ENDED, "exit_status": 0}
    unsafe = {**well, "closed": False}
    assert lived(job(), *RAN, seen(5.0, well, unsafe)).record.state == "RUNNING"
    step = lived(job(), *RAN, seen(5.0, well, well))
    assert (step.record.state, step.record.is_settled) == ("SUCCEEDED", False)
    assert step.actions == (DeleteSlice("us-west4-a", A1),)
    before = reconcile(step.record, replace(asked(6.0, a1=ABSENT), looked_s=4.5))
    assert not before.record.is_settled  # that one answer may have been wrong
    gone = reconcile(step.record, asked(6.0, a1=ABSENT))
    assert (gone.record.is_settled, gone.record.attempt.deleted_s) == (True, 6.0)


def test_a_failure_stops_the_others_and_is_judged_when_all_are_accounted_for():
    failed, running = {**ENDED, "exit_status": 7}, {"phase": Phase.RUNNING}
    step = lived(job(), *RAN, seen(5.0, failed, running))
    assert (step.record.attempt.state, step.record.state) == ("STOPPING", "RUNNING")
    assert step.actions[-1] == StopWorkers(step.record.attempt)
    stopped = {**ENDED, "signal": 15, "stopped": True}
    step = reconcile(step.record, seen(6.0, failed, stopped))
    assert (step.record.state, step.record.why) == (
        "FAILED",
        "worker 0: the program ended with status 7",
    )


def test_a_failure_is_not_judged_before_the_node_was_looked_at_again():
    failed = {**ENDED, "exit_status": 1}
    step = lived(job(), *RAN, seen(5.0, failed, failed))
    stale = replace(seen(6.0, failed, failed), node_checked_s=4.0)
    assert reconcile(step.record, stale).record.attempt.state == "STOPPING"


def test_peers_that_fail_because_a_worker_is_taken_away_are_a_preemption():
    failed, silent = {**ENDED, "exit_status": 1}, {"phase": Phase.RUNNING, "unreachable_s": 1.0}
    taken = seen(6.0, failed, silent, node="PREEMPTED")
    step = lived(job(), *RAN, seen(5.0, failed, silent), taken, asked(7.0, a1=ABSENT), asked(8.0))
    first, second = step.record.attempts
    assert (first.outcome, second.state, second.queued_resource) == ("preempted", "WAITING", A2)
    assert step.record.state == "RECOVERING"


def test_the_dead_slice_is_deleted_before_the_next_is_requested():
    step = lived(job(), *RAN, seen(5.0, node="PREEMPTED", requests={A1: "SUSPENDED"}))
    assert step.actions == (DeleteSlice("us-west4-a", A1),)
    step = reconcile(step.record, asked(6.0, a1="SUSPENDED"))
    assert (step.actions, len(step.record.attempts)) == ((DeleteSlice("us-west4-a", A1),), 1)
    step = reconcile(step.record, asked(7.0, a1=ABSENT))
    assert (step.actions, step.record.why) == ((), f"deleted {A1}")
    step = lived(step.record, asked(8.0), asked(9.0, a2=ABSENT))
    assert [type(action) for action in step.actions] == [RequestSlice]


def test_a_notice_of_preemption_is_no_failure_of_the_program():
    told = {**ENDED, "signal": 15, "preempted": True}
    step = lived(job(), *RAN, seen(5.0, told, told), seen(6.0, told, told))
    assert step.record.attempts[0].outcome == "preempted"
    step = lived(step.record, asked(7.0, a1=ABSENT), asked(8.0))
    assert step.record.attempts[1].queued_resource == A2


@pytest.mark.parametrize(
    ("failure", "exit_codes", "status", "attempts"),
    [(0, (), 1, 1), (2, (), 1, 2), (0, (75,), 75, 2), (0, (75,), 1, 1)],
)
def test_user_errors_do_not_retry_unless_asked(failure, exit_codes, status, attempts):
    restart = Restart(failure=failure, exit_codes=exit_codes)
    failed = {**ENDED, "exit_status": status}
    record = lived(
        job(restart=restart), *RAN, seen(5.0, failed, failed), seen(6.0, failed, failed)
    ).record
    assert len(record.attempts) == attempts
    assert record.attempt.node == A1


def test_a_lost_agent_is_tried_again_on_the_same_slice_three_times_at_most():
    record = job("mine")
    story, now = [], 1.0
    for _ in range(3):
        lost = {"phase": Phase.LOST}
        story += [
            seen(now, {"phase": Phase.PREPARED}, {"phase": Phase.PREPARED}),
            seen(now + 1, lost, lost),
            seen(now + 2, lost, lost),
        ]
        now += 3
    record = lived(record, JobObservation(0.5), *story).record
    assert [attempt.outcome for attempt in record.attempts] == ["lost"] * 3
    assert (record.state, record.is_settled) == ("FAILED", True)


def test_what_is_not_known_changes_nothing():
    record = lived(job(), *RAN).record
    unknown = JobObservation(60.0, workers=gang({"phase": Phase.RUNNING}, {"phase": Phase.RUNNING}))
    assert reconcile(record, unknown).record == replace(record)


def test_cancel_of_a_waiting_job_deletes_its_request():
    record = lived(job(teardown=Teardown.NEVER), asked(1.0), seen(1.5, node="CREATING")).record
    step = reconcile(replace(record, cancel_requested_s=2.0), seen(2.0, node="CREATING"))
    assert (step.record.state, step.actions) == ("CANCELLED", (DeleteSlice("us-west4-a", A1),))


def test_a_request_that_nobody_has_seen_may_still_come_and_is_waited_for_before_the_job_settles():
    record = replace(lived(job(), asked(1.0)).record, cancel_requested_s=2.0)
    record = lived(record, asked(2.0), asked(10.0, a1=ABSENT)).record
    assert (record.state, record.is_settled) == ("CANCELLED", False)
    assert lived(record, asked(2.0 + UNSEEN_S, a1=ABSENT)).record.is_settled
    late = lived(record, asked(12.0, a1="ACCEPTED"))
    assert late.actions == (DeleteSlice("us-west4-a", A1),)
    old_look = replace(asked(2.0 + UNSEEN_S, a1=ABSENT), looked_s=UNSEEN_S)
    assert not lived(record, old_look).record.is_settled


def test_a_slice_that_was_made_anew_under_its_name_is_lost():
    again = seen(5.0, {"phase": Phase.RUNNING}, {"phase": Phase.RUNNING}, node_ids=(8,))
    own = lived(job(), asked(1.0), seen(2.0, node_ids=(7,)), *RAN[2:], again).record
    assert (own.attempt.outcome, own.unwanted) == ("preempted", (A1,))
    named = lived(job("mine"), asked(1.0), seen(2.0, node_ids=(7,)), *RAN[2:], again).record
    assert (named.attempt.outcome, named.attempt.node) == ("lost", "mine")


def test_a_slice_that_is_lost_before_it_was_seen_ready_is_a_preemption():
    record = lived(job(), asked(1.0), seen(2.0, node="PREEMPTED")).record
    assert (record.attempt.outcome, record.unwanted) == ("preempted", (A1,))


@pytest.mark.parametrize(
    ("teardown", "status", "kept"),
    [
        (Teardown.ALWAYS, 0, False), (Teardown.ALWAYS, 1, False),
        (Teardown.ON_SUCCESS, 0, False), (Teardown.ON_SUCCESS, 1, True),
        (Teardown.NEVER, 0, True), (Teardown.NEVER, 1, True),
    ],
)  # fmt: skip
def test_teardown_policies(teardown, status, kept):
    ended = {**ENDED, "exit_status": status}
    record = lived(
        job(teardown=teardown), *RAN, seen(5.0, ended, ended), seen(6.0, ended, ended)
    ).record
    assert (record.is_ended, record.is_settled) == (True, kept)


def test_timeouts_of_queue_setup_and_run():
    limits = Timeouts(queue_s=10, setup_s=20, run_s=30)
    queued = lived(job(timeouts=limits), asked(1.0), asked(12.0)).record
    assert (queued.state, queued.why) == ("FAILED", "no v5litepod-16 within 10 s")
    up = {"phase": Phase.PREPARING}
    setup = lived(job(timeouts=limits), *WAITED, seen(23.0, up, up)).record
    assert setup.attempt.reason == "not prepared within 20 s"
    up = {"phase": Phase.RUNNING}
    ran = lived(job(timeouts=limits), *RAN, seen(34.0, up, up)).record
    assert (ran.attempt.state, ran.attempt.outcome) == ("STOPPING", "timeout")


def test_a_refused_request_ends_the_job_with_the_apis_words():
    refusal = SliceRefusal("no such type", "usage", A1)
    record = lived(job(), asked(1.0), replace(asked(2.0), refusals=(refusal,))).record
    assert (record.state, record.why) == ("FAILED", "no such type")
    assert (record.attempt.outcome, record.attempt.refusal) == ("refused", "usage")
    failed = lived(job(), asked(1.0), asked(2.0, a1="FAILED")).record
    assert (failed.why, failed.attempt.refusal) == ("the queued resource FAILED", "no_capacity")
    stale = replace(asked(2.0), refusals=(replace(refusal, queued_resource=A2),))
    assert lived(job(), asked(1.0), stale).record.state == "WAITING"


def test_why_a_job_ended_is_still_told_when_its_slice_is_gone():
    failed = {**ENDED, "exit_status": 7}
    ended = lived(job(), *RAN, seen(5.0, failed, failed), seen(6.0, failed, failed)).record
    gone = reconcile(ended, asked(7.0, a1=ABSENT)).record
    assert gone.why == ended.why == "worker 0: the program ended with status 7"
    assert gone.events[-1] == JobEvent(7.0, f"deleted {A1}", EventKind.DELETED)


def test_a_supervisors_trouble_is_told_until_it_is_over():
    running = lived(job(), *RAN).record
    in_trouble = story.with_trouble(running, "403: no", 5.0)
    assert in_trouble.status_text == "its supervisor has trouble: 403: no"
    assert story.with_trouble(in_trouble, "403: no", 6.0) == in_trouble
    over = replace(in_trouble, trouble=None)
    assert over.status_text == running.why
    assert story.with_trouble(over, "403: no", 9.0) == in_trouble
    ended = replace(running, state=JobState.FAILED)
    assert story.with_trouble(ended, "403: no", 5.0) == ended


def test_what_keeps_the_slice_of_an_ended_job_is_told_once():
    well = {**ENDED, "exit_status": 0}
    done = lived(job(), *RAN, seen(5.0, well, well)).record
    refused = {"trouble": "403 no"}
    record = lived(done, seen(6.0, **refused), seen(7.0, **refused), seen(8.0)).record
    assert [each.text for each in record.events if "403" in each.text] == [
        "its slice is not deleted yet: 403 no"
    ]
    assert (record.why, record.is_settled) == ("all 2 workers ended well", False)


def test_a_stop_that_waits_for_the_api_says_so():
    failed = {**ENDED, "exit_status": 7}
    blind = {"node": None, "trouble": "nodes: 403 no"}
    stopping = lived(job(), *RAN, seen(5.0, failed, failed)).record
    unchecked = replace(seen(6.0, failed, failed, **blind), node_checked_s=0.0)
    assert lived(stopping, unchecked).record.why == "stopping: nodes: 403 no"


@pytest.mark.parametrize("behind_s", [5.0, 4000.0])
def test_a_clock_that_was_set_back_keeps_no_attempt_and_no_slice_waiting(behind_s):
    failed = {**ENDED, "exit_status": 7}
    now_s = 5000.0 - behind_s
    stopping = lived(job(restart=Restart(failure=1)), *RAN, seen(5000.0, failed, failed)).record
    ended = lived(stopping, seen(now_s, failed, failed), seen(now_s + 1, failed, failed)).record
    assert ended.attempts[0].outcome == "failed"
    taken = lived(job(), *RAN, seen(5000.0, node="PREEMPTED")).record
    again = lived(taken, asked(now_s, a1=ABSENT), asked(now_s + 1, a1=ABSENT)).record
    assert (again.attempt.number, again.attempt.requested_s) == (2, now_s + 1)


def test_the_attempt_keeps_the_waits_of_the_worker_that_waited_longest():
    short, long = (SaveWait(9.0, 0.5),), (SaveWait(9.0, 2.0), SaveWait(19.0, 3.0))
    running = {"phase": Phase.RUNNING}
    workers = {**running, "save_waits": short}, {**running, "save_waits": long}
    step = lived(job(), *RAN, seen(5.0, *workers))
    assert step.record.attempt.save_waits == long
    assert [report.save_waits for report in step.record.attempt.workers] == [(), ()]
    step = reconcile(step.record, seen(6.0, running, running))
    assert step.record.attempt.save_waits == long


def test_the_attempt_keeps_when_its_steps_were_told_and_how_long_the_slowest_program_ran():
    table = {"1": 2.0, "7": 9.0}
    running = {"phase": Phase.RUNNING, "step_times": table}
    step = lived(job(), *RAN, seen(5.0, {**ENDED, "exit_status": 0, "ran_s": 12.0}, running))
    attempt = step.record.attempt
    assert (attempt.step_times, attempt.ran_s) == (table, None)
    assert [report.step_times for report in attempt.workers] == [{}, {}]
    well = {**ENDED, "exit_status": 0, "ran_s": 14.0}
    step = reconcile(step.record, seen(6.0, {**well, "ran_s": 12.0}, well))
    assert (step.record.attempt.step_times, step.record.attempt.ran_s) == (table, 14.0)
