"""A worker that cannot be heard: when it is lost, and which slices are given up for it."""

import random
from dataclasses import replace

import pytest

from tpuctl.jobs.policy.attempts import restart_stopping_wait
from tpuctl.jobs.policy.observation import ABSENT
from tpuctl.jobs.record.job_retry import reopen_record
from tpuctl.models.job import JobRecord, Phase, Restart, Teardown
from unit.jobs.job_steps import A1, A2, ENDED, RAN, WAITED, asked, job, lived, seen

UP, FINE = {"phase": Phase.RUNNING}, {"phase": Phase.PREPARED}
LATE = {"message": "worker 1: the agent does not start: No space left on device"}


def quiet(seconds: float) -> dict:
    return {**UP, "unreachable_s": seconds}


@pytest.mark.parametrize(
    ("reports", "node", "is_lost"),
    [
        ([UP, quiet(14.0)], "READY", False),
        ([UP, quiet(16.0)], "READY", True),
        ([UP, quiet(16.0)], None, False),
        ([UP, quiet(16.0)], "REPAIRING", False),
        ([quiet(16.0), quiet(16.0)], "READY", False),
        ([quiet(61.0), quiet(61.0)], "READY", True),
        ([{**ENDED, "exit_status": 0}, quiet(16.0)], "READY", False),
        ([{**ENDED, "exit_status": 0}, quiet(61.0)], None, True),
    ],
)
def test_silence_is_loss_after_a_minute_or_sooner_while_a_peer_answers(reports, node, is_lost):
    attempt = lived(job(), *RAN, seen(100.0, *reports, node=node)).record.attempt
    assert (attempt.outcome == "lost") == is_lost
    if is_lost:
        assert attempt.reason == f"worker {attempt.first_worker} has not answered for " + (
            "16 s" if attempt.first_worker == 1 and reports[0] == UP else "61 s"
        )


@pytest.mark.parametrize(
    ("reports", "excused_s", "failed", "is_lost"),
    [
        ([quiet(3600.0), quiet(3600.0)], 3995.0, (), False),
        ([UP, quiet(3600.0)], 3995.0, (), False),  # its connection comes back a little later
        ([UP, quiet(3600.0)], 3930.0, (), True),
        ([quiet(3600.0), quiet(3600.0)], None, (), True),
        ([quiet(3600.0), quiet(3600.0)], 3995.0, (1,), True),
    ],
)
def test_silence_is_no_loss_while_the_slice_sends_its_log(reports, excused_s, failed, is_lost):
    now = seen(4000.0, *reports, excused_s=excused_s, failed_workers=frozenset(failed))
    attempt = lived(job(), *RAN, now).record.attempt
    assert (attempt.outcome == "lost") == is_lost


def test_a_loss_explains_the_failure_of_a_peer_after_a_takeover_too():
    failed = {**ENDED, "exit_status": 1}
    stopping = lived(job(restart=Restart(failure=0)), *RAN, seen(20.0, failed, quiet(2.0))).record
    taken = restart_stopping_wait(stopping, 90.0)
    silent = {"phase": Phase.CONNECTING, "unreachable_s": 40.0}
    waits = lived(taken, seen(130.0, failed, silent)).record
    assert waits.attempt.state == "STOPPING"
    found = lived(waits, seen(152.0, failed, {**silent, "unreachable_s": 62.0})).record
    assert found.attempts[0].reason == "worker 1 has not answered for 62 s"
    assert (found.attempts[0].outcome, found.state) == ("lost", "RECOVERING")


def test_a_gang_that_stops_for_a_silent_worker_does_not_wait_for_it_again():
    stopping = lived(job(), *RAN, seen(100.0, UP, quiet(16.0))).record
    assert stopping.attempt.state == "STOPPING"
    stopped = {**ENDED, "signal": 15, "stopped": True}
    found = lived(stopping, seen(102.0, stopped, quiet(18.0))).record.attempts[0]
    assert (found.state, found.reason) == ("ENDED", "worker 1 has not answered for 16 s")


@pytest.mark.parametrize(("lasted_s", "state"), [(60.0, "FAILED"), (700.0, "RECOVERING")])
def test_three_losses_on_a_named_slice_end_the_job_unless_it_ran_well_between(lasted_s, state):
    record, now_s = lived(job("mine"), asked(1.0)).record, 10.0
    for _ in range(3):
        record = lived(
            record, seen(now_s, FINE, FINE), seen(now_s + 1, UP, UP),
            seen(now_s + lasted_s, UP, {"phase": Phase.LOST}),
            seen(now_s + lasted_s + 1, {**ENDED, "stopped": True}, {"phase": Phase.LOST}),
        ).record  # fmt: skip
        now_s += 1000.0
    assert ([each.outcome for each in record.attempts[:3]], record.state) == (["lost"] * 3, state)


def test_a_node_seen_ready_before_the_silence_proves_nothing():
    old = replace(seen(100.0, UP, quiet(16.0)), node_checked_s=80.0)
    record = lived(job(), *RAN, old).record
    assert (record.attempt.outcome, record.why) == (None, "worker 1 does not answer")


def test_a_worker_that_was_never_reached_is_waited_for_three_minutes_and_named():
    why = "the agent does not start: No space left on device"
    record = lived(job(), *WAITED, seen(15.0, FINE, LATE)).record
    assert record.why == "preparing 2 workers"
    record = lived(record, seen(30.0, FINE, LATE)).record
    assert record.why == f"waiting for worker 1: {why}"
    slow = lived(record, seen(190.0, FINE, FINE)).record
    assert (slow.why, slow.attempt.awaited_s) == ("running on 2 workers", None)
    lost = lived(record, seen(196.0, FINE, LATE)).record.attempt
    assert (lost.outcome, lost.first_worker) == ("lost", 1)
    assert lost.reason == f"worker 1 was never reached: {why}"


def test_when_nobody_can_be_reached_the_time_for_setup_decides():
    record = lived(job(), *WAITED, seen(300.0, LATE, LATE)).record
    assert record.attempt.outcome is None
    over = lived(record, seen(1300.0, LATE, LATE)).record.attempt
    assert (over.outcome, over.first_worker) == ("lost", 0)


def unstarted(record: JobRecord, times: int, report: dict, now_s: float = 10.0) -> JobRecord:
    """Worker 1 of every attempt on the slice does not get to the program."""
    for _ in range(times):
        record = lived(
            record, seen(now_s, FINE, report), seen(now_s + 200.0, FINE, report),
            seen(now_s + 201.0, FINE, report), seen(now_s + 202.0, {**ENDED, "stopped": True,
                "signal": 15}, report),
        ).record  # fmt: skip
        now_s += 300.0
    return record


def test_an_own_slice_with_a_worker_that_does_not_start_twice_is_deleted_and_another_one_made():
    record = unstarted(lived(job(), asked(1.0), seen(2.0, node_ids=(77,))).record, 2, {})
    assert [each.node for each in record.attempts] == [A1, A1]
    assert (record.attempt.spent, record.unwanted) == (True, (A1,))
    assert record.attempts[0].node_ids == (77,)
    fresh = lived(record, asked(900.0, a1=ABSENT), asked(901.0)).record
    assert fresh.attempt.node == "digits-a1b2c3-a3"


def test_it_is_deleted_even_where_slices_are_to_be_kept():
    kept = lived(job(teardown=Teardown.NEVER), *WAITED).record
    assert unstarted(kept, 2, {}).unwanted == (A1,)


def test_a_named_slice_with_such_a_worker_ends_the_job_with_the_reason():
    record = unstarted(lived(job("mine"), asked(1.0)).record, 2, LATE)
    assert (record.state, record.why) == (
        "FAILED",
        "worker 1 of mine did not start twice: worker 1 was never reached: "
        "the agent does not start: No space left on device",
    )


def test_setup_that_fails_twice_on_a_slice_is_tried_on_another_one_while_tries_are_left():
    failed = {**ENDED, "stage": "setup", "exit_status": 1}
    record = lived(job(restart=Restart(failure=2)), *WAITED).record
    record = unstarted(record, 2, failed)
    assert [each.outcome for each in record.attempts] == ["failed", "failed"]
    assert (record.state, record.attempt.spent) == ("RECOVERING", True)
    without = unstarted(lived(job(restart=Restart(failure=1)), *WAITED).record, 2, failed)
    assert (without.state, without.why) == ("FAILED", "worker 1: setup ended with status 1")


def test_three_slices_in_a_row_that_do_not_work_end_the_job():
    record, now_s = lived(job(), *WAITED).record, 10.0
    for name, following in (("a1", "a3"), ("a3", "a5"), ("a5", "a7")):
        record = unstarted(record, 2, {}, now_s)
        now_s += 1000.0
        if record.is_ended:
            break
        record = lived(
            record, asked(now_s - 10, **{name: ABSENT}), asked(now_s - 9),
            seen(now_s - 8, requests={f"digits-a1b2c3-{following}": "ACTIVE"}),
        ).record  # fmt: skip
    assert record.state == "FAILED"
    assert record.why == "3 slices in a row did not work: worker 1 was never reached"
    assert len({each.node for each in record.attempts}) == 3


def test_a_job_tried_again_by_hand_begins_anew_on_the_slice_that_was_kept():
    record = lived(job(teardown=Teardown.NEVER), *RAN).record
    failed = {**ENDED, "exit_status": 1}
    record = lived(record, seen(5.0, failed, failed), seen(6.0, failed, failed)).record
    again = reopen_record(record, 100.0)
    assert (again.state, again.ended_s, again.retried_after, again.unwanted) == (
        "QUEUED", None, 1, ()
    )  # fmt: skip
    record = lived(again, asked(101.0)).record
    assert (record.attempt.number, record.attempt.node) == (2, A1)


def test_a_job_tried_again_by_hand_requests_a_slice_when_its_own_was_deleted():
    failed = {**ENDED, "exit_status": 1}
    record = lived(job(), *RAN, seen(5.0, failed, failed), seen(6.0, failed, failed)).record
    with pytest.raises(Exception, match="still being deleted"):
        reopen_record(record, 7.0)
    again = reopen_record(lived(record, asked(8.0, a1=ABSENT)).record, 9.0)
    record = lived(again, asked(10.0)).record
    assert (record.state, record.attempt.node) == ("WAITING", "digits-a1b2c3-a2")
    with pytest.raises(Exception, match="it has not ended"):
        reopen_record(record, 11.0)


DEAD = {"failed_workers": frozenset({0})}


@pytest.mark.parametrize(("silent_s", "is_lost"), [(14.0, False), (16.0, True)])
def test_the_only_worker_is_lost_sooner_when_the_service_has_lost_it_too(silent_s, is_lost):
    record = lived(job(), *RAN, seen(100.0, quiet(silent_s), **DEAD)).record
    assert (record.attempt.outcome == "lost") == is_lost


def test_what_the_service_said_before_the_silence_proves_nothing():
    old = replace(seen(100.0, quiet(16.0), **DEAD), node_checked_s=80.0)
    assert lived(job(), *RAN, old).record.attempt.outcome is None


def test_a_slice_whose_worker_the_service_has_lost_is_given_up_at_once():
    silent = seen(100.0, quiet(16.0), **DEAD)
    record = lived(job(), *RAN, silent, replace(silent, now_s=101.0, node_checked_s=101.0)).record
    assert (len(record.attempts), record.attempt.spent, record.unwanted) == (1, True, (A1,))
    fresh = lived(record, asked(110.0, a1=ABSENT), asked(111.0)).record
    assert (fresh.attempt.node, fresh.attempt.state) == (A2, "WAITING")


def test_the_slice_of_somebody_else_is_tried_again():
    silent = seen(100.0, quiet(16.0), **DEAD)
    story = (asked(1.0), seen(3.0, FINE), seen(4.0, UP), silent, replace(silent, now_s=101.0))
    record = lived(job("mine"), *story, replace(silent, now_s=102.0, node_checked_s=102.0)).record
    assert [each.node for each in record.attempts] == ["mine", "mine"]


def test_a_worker_that_died_before_it_was_reached_holds_the_job_up_for_seconds():
    late = {"phase": Phase.CONNECTING}
    record = lived(job(), *WAITED, seen(10.0, late, FINE, **DEAD)).record
    assert record.attempt.outcome is None
    record = lived(record, seen(18.0, late, FINE, **DEAD)).record
    assert (record.attempt.outcome, record.attempt.first_worker) == ("lost", 0)


def test_a_slice_that_was_reached_before_and_is_silent_now_is_not_paid_for_until_the_setup_ends():
    silent, late = seen(100.0, quiet(61.0), node_ids=(7,)), {"phase": Phase.CONNECTING}
    record = lived(job(), *RAN, silent, replace(silent, now_s=101.0, node_checked_s=101.0)).record
    assert [each.node for each in record.attempts] == [A1, A1]
    record = lived(record, seen(280.0, late), seen(282.0, late), seen(283.0, late)).record
    assert (record.attempts[1].outcome, record.attempts[1].spent) == ("lost", True)


def test_a_worker_that_stays_away_after_its_loss_is_waited_for_for_seconds_by_its_peers():
    late, stopped = {"phase": Phase.CONNECTING}, {**ENDED, "signal": 15, "stopped": True}
    lost = lived(job(), *RAN, seen(100.0, UP, quiet(16.0)), seen(101.0, stopped, quiet(17.0)))
    again = lived(lost.record, seen(103.0, FINE, late), seen(128.0, FINE, late)).record
    assert (len(again.attempts), again.attempt.state) == (2, "PREPARING")
    given_up = lived(again, seen(129.0, FINE, late), seen(130.0, stopped, late)).record
    assert (given_up.attempt.outcome, given_up.unwanted) == ("lost", (A1,))


def test_of_a_thousand_slow_workers_none_is_given_up():
    """Each falls silent for a while and answers again, and the service finds nothing wrong."""
    rng = random.Random(17)
    for node in ("READY", None):
        slow = [quiet(rng.uniform(0.0, 14.9)) for _ in range(1000)]
        fine = [UP] * len(slow)
        record = lived(job(), *RAN, seen(100.0, *slow, node=node), seen(101.0, *fine)).record
        assert (record.attempt.outcome, len(record.attempts)) == (None, 1)
