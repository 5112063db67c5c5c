"""Which worker was first, what explains the others, and what a slice that is gone left behind."""

from dataclasses import replace

import pytest

from tpuctl.jobs.policy import attempt_end
from tpuctl.jobs.policy.actions import StopWorkers
from tpuctl.jobs.policy.observation import ABSENT
from tpuctl.models.job import (
    JobRecord,
    Phase,
    ProofResult,
    Restart,
    SwitchProof,
    Timeouts,
    WorkerReport,
)
from unit.jobs.job_steps import A1, ENDED, RAN, asked, gang, job, lived, seen

UP = {"phase": Phase.RUNNING}
WELL = {**ENDED, "exit_status": 0}
ARMED = SwitchProof(ProofResult.ARMED, "armed")
STOPPED = {**ENDED, "signal": 15, "stopped": True, "ended_s": 5.5}


def failed(ended_s: float, **how) -> dict:
    how = how or {"exit_status": 1}
    return {**ENDED, **how, "ended_s": ended_s, "last_lines": (f"at {ended_s}",)}


def judged(*reports: dict, **spec) -> JobRecord:
    return lived(job(**spec), *RAN, seen(5.0, *reports), seen(90.0, *reports)).record


@pytest.mark.parametrize(
    ("reports", "outcome", "first", "reason"),
    [
        ([failed(4.9), failed(4.2)], "failed", 1, "worker 1: the program ended with status 1"),
        ([failed(4.9, exit_status=42), STOPPED], "failed", 0,
         "worker 0: the program ended with status 42"),
        ([STOPPED, failed(4.9, exit_status=137)], "failed", 1,
         "worker 1: the program ended with status 137"),
        ([STOPPED, failed(4.9, signal=9)], "failed", 1,
         "worker 1: the program was killed by signal 9"),
        ([STOPPED, failed(4.9, stage="setup", exit_status=2)], "failed", 1,
         "worker 1: setup ended with status 2"),
        ([failed(4.9), {"phase": Phase.LOST, "message": "lost its agent"}], "lost", 1,
         "worker 1 lost its agent"),
        ([failed(4.9), {**UP, "unreachable_s": 70.0}], "lost", 1,
         "worker 1 has not answered for 70 s"),
        ([WELL, {**UP, "unreachable_s": 70.0}], "lost", 1, "worker 1 has not answered for 70 s"),
        ([failed(4.9), failed(4.2, stage="fetch", exit_status=1)], "lost", 1,
         "worker 1 could not fetch the workdir"),
        ([STOPPED, failed(4.2, stage="fetch", exit_status=65)], "failed", 1,
         "worker 1: the workdir in the bucket is not the one that was submitted"),
        ([failed(4.9), failed(4.2, stage="secrets", exit_status=75)], "lost", 1,
         "worker 1 could not reach its secrets"),
        ([failed(4.9), failed(4.2, stage="chips", exit_status=75, message="process 7 of ann")],
         "lost", 1, "worker 1 found its chips held by process 7 of ann (see: tpuctl node free)"),
        ([STOPPED, {**failed(4.2, stage="ray", exit_status=1), "last_lines": ("tpuctl: no Ray",)}],
         "failed", 1, "worker 1: no Ray"),
        ([STOPPED, failed(4.2, stage="mounts", exit_status=1)], "failed", 1,
         "worker 1: file_mounts ended with status 1"),
        ([failed(4.9), {**STOPPED, "preempted": True}], "preempted", 1,
         "worker 1 got notice of its preemption"),
        ([failed(4.9), {**STOPPED, "terminated": True}], "lost", 1, "worker 1 was shut down"),
    ],
)  # fmt: skip
def test_the_first_one_is_named_with_what_happened_to_it(reports, outcome, first, reason):
    attempt = judged(*reports).attempts[0]
    assert (attempt.outcome, attempt.first_worker, attempt.reason) == (outcome, first, reason)


@pytest.mark.parametrize(
    ("report", "uses_a_try"),
    [
        (failed(4.9), True),
        (failed(4.9, signal=9), True),
        ({"phase": Phase.LOST}, False),
        ({**UP, "unreachable_s": 70.0}, False),
        ({**STOPPED, "preempted": True}, False),
        (failed(4.9, stage="fetch", exit_status=1), False),
    ],
)
def test_only_what_the_program_did_uses_a_try(report, uses_a_try):
    assert judged(report, STOPPED).is_ended == uses_a_try


def test_a_peer_that_ends_with_a_listed_status_because_it_was_stopped_earns_no_try():
    polite = {**ENDED, "exit_status": 75, "stopped": True}
    restart = Restart(exit_codes=(75,))
    assert judged(failed(4.9), polite, restart=restart).is_ended
    assert not judged(failed(4.9, exit_status=75), polite, restart=restart).is_ended


def test_the_record_keeps_the_last_words_of_the_first_worker_alone():
    long = {**failed(4.2), "last_lines": ("x" * 9999,), "traceback": "ValueError"}
    workers = judged(failed(4.9), long).attempt.workers
    assert (workers[0].last_lines, workers[0].traceback) == ((), "")
    assert (workers[1].last_lines, workers[1].traceback) == (("x" * 500,), "ValueError")


def silent(*quiet_s: float, **extra) -> list[dict]:
    return [{**UP, "quiet_s": each, **extra} for each in quiet_s]


@pytest.mark.parametrize(
    ("reports", "is_hung"),
    [
        (silent(901.0, 950.0), True),
        (silent(901.0, 10.0), False),
        ([WELL, *silent(901.0)], True),
        (silent(901.0, 950.0, unreachable_s=2.0), False),
    ],
)
def test_a_run_without_a_line_or_a_step_of_anybody_is_stopped_after_a_dump(reports, is_hung):
    step = lived(job(timeouts=Timeouts(hang_s=900.0)), *RAN, seen(1000.0, *reports))
    attempt = step.record.attempt
    assert (attempt.outcome == "hung") == is_hung
    if is_hung:
        assert (step.actions[-1], attempt.first_worker) == (
            StopWorkers(attempt, dump=True),
            1,
        )
        assert attempt.reason == "no line and no step of any worker for 15 min"


def test_a_hang_uses_a_try_and_a_preemption_explains_it():
    spec = {"timeouts": Timeouts(hang_s=900.0)}
    ended = (seen(1000.0, *silent(901.0, 950.0)), seen(1001.0, STOPPED, STOPPED))
    assert lived(job(**spec), *RAN, *ended).record.state == "FAILED"
    again = lived(job(**spec, restart=Restart(failure=1)), *RAN, *ended).record
    assert (again.attempts[0].outcome, again.attempt.node) == ("hung", A1)
    taken = seen(1001.0, STOPPED, STOPPED, node="PREEMPTED")
    record = lived(job(**spec), *RAN, ended[0], taken).record
    assert (record.attempt.outcome, record.is_ended) == ("preempted", False)


def finals(*reports: dict) -> tuple[WorkerReport, ...]:
    return tuple(replace(each, closed=False) for each in gang(*reports))


def test_a_job_whose_workers_all_ended_well_has_succeeded_though_its_slice_deleted_itself():
    gone = asked(2000.0, a1=ABSENT)
    record = lived(job(), *RAN, replace(gone, final_reports=finals(WELL, WELL))).record
    assert (record.state, record.why) == ("SUCCEEDED", "all 2 workers ended well")
    half = lived(job(), *RAN, seen(5.0, WELL, UP), replace(gone, final_reports=finals(WELL, WELL)))
    assert half.record.state == "SUCCEEDED"
    assert lived(job(), *RAN, replace(gone, final_reports=finals(WELL))).record.state == "FAILED"


@pytest.mark.parametrize("told", [{"preempted": True}, {"stopped": True}])
def test_a_program_that_saved_and_ended_well_because_it_was_told_to_has_not_succeeded(told):
    saved = {**WELL, **told}
    gone = seen(6.0, node="PREEMPTED", final_reports=finals(saved, saved))
    record = lived(job(), *RAN, seen(5.0, saved, saved), gone).record
    assert (record.attempts[0].outcome, record.state) == ("preempted", "RECOVERING")


def test_time_runs_out_only_for_what_still_runs():
    record = lived(job(timeouts=Timeouts(run_s=900.0)), *RAN).record
    unheard = seen(9000.0, {}, {}, node=None)
    assert lived(record, unheard).record.attempt.outcome is None
    well = lived(record, unheard, seen(9001.0, WELL, WELL)).record
    assert well.state == "SUCCEEDED"
    gone = replace(asked(9001.0, a1=ABSENT), final_reports=finals(WELL, WELL))
    assert lived(record, unheard, gone).record.state == "SUCCEEDED"
    assert lived(record, unheard, seen(9001.0, UP, UP)).record.attempt.outcome == "timeout"


def test_a_program_that_failed_before_its_slice_deleted_itself_has_failed():
    told = finals(failed(4.9), STOPPED)
    gone = replace(asked(2000.0, a1=ABSENT), final_reports=told)
    record = lived(job(), *RAN, gone).record
    assert (record.state, record.why) == ("FAILED", "worker 0: the program ended with status 1")
    again = lived(job(restart=Restart(failure=1)), *RAN, gone).record
    assert (again.state, again.attempt.spent) == ("RECOVERING", True)


def test_a_preemption_is_not_explained_by_programs_that_failed_of_it():
    gone = seen(2000.0, node="PREEMPTED", final_reports=finals(failed(4.9), failed(4.9)))
    assert lived(job(), *RAN, gone).record.attempt.outcome == "preempted"


def test_people_are_told_once_that_a_slice_cannot_delete_itself():
    bad = {**UP, "switch": SwitchProof(ProofResult.REFUSED, "may not: 403 no")}
    record = lived(job(), *RAN, seen(5.0, bad, UP), seen(6.0, bad, UP), seen(7.0, UP, UP),
        seen(8.0, bad, UP)).record  # fmt: skip
    assert len([each for each in record.events if "403 no" in each.text]) == 1
    assert record.why == "running on 2 workers"
    fine = lived(job(), *RAN, seen(5.0, {**UP, "switch": ARMED}, UP)).record
    assert fine.events == lived(job(), *RAN).record.events


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (WELL, "ended well"),
        (failed(1.0), "the program ended with status 1"),
        (STOPPED, "the program was killed by signal 15 (stopped)"),
        ({**ENDED, "stage": "setup", "stopped": True}, "setup was not begun (stopped)"),
        ({"phase": Phase.LOST}, "lost its agent"),
        ({**UP, "unreachable_s": 7.0}, "has not answered for 7 s"),
        (UP, "running"),
    ],
)
def test_one_worker_in_words(report, words):
    assert attempt_end.worker_text(WorkerReport(0, **report)) == words
