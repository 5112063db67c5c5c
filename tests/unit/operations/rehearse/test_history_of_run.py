"""What happened when in a run: one clock, that of the job's submission."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tpuctl.models.job import Attempt, AttemptOutcome, AttemptState, JobRecord, JobSpec
from tpuctl.models.rehearsal.evidence import FiredEntry, RunEvidence
from tpuctl.models.rehearsal.request_log import StorageRequest
from tpuctl.models.rehearsal.run_history import (
    AttemptSpan,
    FiredDisturbance,
    LoggedStep,
    RunHistory,
    SaveSpan,
)
from tpuctl.operations.rehearse.judgement.observation.history_of_run import (
    MOST_STEPS,
    history_of_run,
    thin_out,
)
from tpuctl.operations.rehearse.judgement.observation.logged_steps import StepLog, ToldStep
from tpuctl.operations.rehearse.judgement.observation.observed_saves import SaveLayout

SUBMITTED_S = 1_800_000_000.0
LAYOUT = SaveLayout("local-bucket/runs/digits/", {"#/part-#": 0, "#/COMMIT": 0}, "#/COMMIT")
FIRST = Attempt(
    1, "us-west4-a", "digits-1", AttemptState.ENDED, owned=True,
    requested_s=SUBMITTED_S + 0.5, provisioning_s=SUBMITTED_S + 1, ready_s=SUBMITTED_S + 2,
    started_s=SUBMITTED_S + 3, ended_s=SUBMITTED_S + 10, outcome=AttemptOutcome.PREEMPTED,
)  # fmt: skip
SECOND = replace(
    FIRST, number=2, requested_s=None, provisioning_s=None, ready_s=SUBMITTED_S + 12,
    started_s=SUBMITTED_S + 13, ended_s=SUBMITTED_S + 20, outcome=AttemptOutcome.SUCCEEDED,
)  # fmt: skip
JOB = JobRecord(
    "digits-1", JobSpec("digits", "python train.py"), "ada", SUBMITTED_S, "us-west4-a",
    "v5litepod-16", attempts=(FIRST, SECOND),
)  # fmt: skip


def written(name, at_s, *, number, ended_s=0.5):
    """An upload; without an end the worker died in it."""
    return StorageRequest(
        number, "storage.objects.insert", "local-bucket", name, "digits-1/0", SUBMITTED_S + at_s,
        None if ended_s is None else SUBMITTED_S + at_s + ended_s, 200 if ended_s else 0, 10,
        number if ended_s else 0, 0,
    )  # fmt: skip


def read(name, at_s, *, status=200, caller="digits-1/0"):
    return StorageRequest(
        1, "storage.objects.get", "local-bucket", name, caller, SUBMITTED_S + at_s,
        SUBMITTED_S + at_s + 0.1, status, 10, 0, 0,
    )  # fmt: skip


RUN = RunEvidence(
    JOB, 0, "", (),
    (
        written("runs/digits/2/part-0", 7, number=11),
        written("runs/digits/2/COMMIT", 7.5, number=12),
        written("runs/digits/4/part-0", 9, number=13),
        written("runs/digits/4/COMMIT", 9.5, number=14, ended_s=None),
        read("runs/digits/RUN", 4),  # before there is a save
        read("runs/digits/LATEST", 13.2, status=404),
        read("data/train.npz", 13.5),
        read("tpuctl/jobs/digits-1/workdir.tar", 13.6),
        read("runs/digits/30/COMMIT", 13.8, caller=""),
        read("runs/digits/30/part-0", 14.25),
        read("runs/digits/30/part-1", 14.5),
        read("runs/digits-old/30/part-1", 13.9),
    ),
    (FiredEntry("kill", SUBMITTED_S + 9.5, 17),),
    began_s=SUBMITTED_S - 1,
    ended_s=SUBMITTED_S + 21,
)  # fmt: skip


def test_every_time_is_since_the_submission():
    steps = [
        ToldStep(2, 0, 2, SUBMITTED_S + 15),
        ToldStep(1, 0, 1, SUBMITTED_S + 5.2),
        ToldStep(1, 3, 1, SUBMITTED_S + 5.1),  # another worker was first
        ToldStep(1, 0, 2, SUBMITTED_S + 7),
    ]
    assert history_of_run(RUN, StepLog(tuple(steps)), LAYOUT) == RunHistory(
        21.0,
        (
            AttemptSpan(1, "us-west4-a", 0.5, 1.0, 2.0, 3.0, 10.0, AttemptOutcome.PREEMPTED),
            AttemptSpan(2, "us-west4-a", 12.0, None, 12.0, 13.0, 20.0, AttemptOutcome.SUCCEEDED),
        ),
        (LoggedStep(1, 1, 5.1), LoggedStep(1, 2, 7.0), LoggedStep(2, 2, 15.0)),
        (SaveSpan(7.0, 2, 8.0), SaveSpan(9.0, 4, None)),
        (14.25,),
        (FiredDisturbance("kill", 9.5),),
    )


def test_a_run_without_a_job_has_its_own_length_and_nothing_else():
    lost = replace(RUN, job=None, fired=(), error="there is no accelerator type 'v9'")
    assert history_of_run(lost, StepLog(), SaveLayout("")) == RunHistory(22.0)


def test_reads_are_not_restores_where_no_prefix_is_known():
    assert history_of_run(RUN, StepLog(), SaveLayout("")).restores_s == ()


@given(st.integers(0, 3 * MOST_STEPS))
def test_of_many_steps_some_are_kept_with_the_first_and_the_last(count):
    rows = [(1, float(step), step) for step in range(count)]
    kept = thin_out(rows)
    assert len(kept) == min(count, MOST_STEPS)
    assert kept == sorted(set(kept))
    assert (kept[:1], kept[-1:]) == (rows[:1], rows[-1:])
