"""What is looked at once, before an attempt ends: the newest checkpoint, what workers left."""

import json
from dataclasses import replace

import pytest

from tpuctl.errors import TransientError
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.policy.observation import JobObservation
from tpuctl.jobs.slices import final_state
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    Checkpoints,
    JobRecord,
    JobSpec,
)
from tpuctl.store import open_store

DIR = "gs://b/runs"
ATTEMPT = Attempt(1, "z", "n", AttemptState.STOPPING, owned=True, worker_count=2)
JOB = JobRecord(
    "j", JobSpec("j", "true", checkpoints=Checkpoints(DIR)), "me", 0.0, "z", "v5litepod-8",
    attempts=(ATTEMPT,),
)  # fmt: skip
SEEN = JobObservation(1.0)


@pytest.fixture
def outside(tmp_path):
    def opened(url):
        return open_store(str(tmp_path / url.removeprefix("gs://")))

    store = open_store(str(tmp_path))
    given = ("here", "z", "b", "http://b", store, None, None, "key")
    return Backends(*given, open_store=opened)


@pytest.fixture
def runs(outside):
    return outside.open_store(DIR)


def told(outside, outcome, job=JOB):
    ended = replace(ATTEMPT, state=AttemptState.ENDED, outcome=outcome)
    return final_state.with_final_state(outside, job, ended, SEEN)


@pytest.mark.parametrize("saved", ["step_000000000001/COMMIT", "checkpoint-7/model.safetensors"])
def test_the_newest_checkpoint_counts_and_what_every_attempt_writes_does_not(outside, runs, saved):
    kept = runs.put_if_absent(saved, b"x")
    runs.put_if_absent("ROLLBACK_0000000000000001", b"x")
    runs.put_if_absent("RESUME_0000000000000001/try_0", b"x")
    runs.put_if_absent("STOP_0000000000000001/stop_0", b"x")
    runs.put_if_absent("step_000000000002/a_0000000000000001/done_0.json", b"x")
    runs.put_if_absent("step_000000000001/BAD_17", b"x")
    assert told(outside, AttemptOutcome.FAILED).saved_s == kept.updated_s
    assert told(outside, AttemptOutcome.HUNG).saved_s == kept.updated_s
    assert told(outside, AttemptOutcome.PREEMPTED).saved_s is None


def test_a_job_that_never_saved_is_told_from_one_that_cannot_be_looked_at(outside, runs):
    assert told(outside, AttemptOutcome.FAILED).saved_s == 0.0
    without = replace(JOB, spec=replace(JOB.spec, checkpoints=None))
    assert told(outside, AttemptOutcome.FAILED, without).saved_s == 0.0

    def away(url):
        raise TransientError("the bucket is away")

    assert told(replace(outside, open_store=away), AttemptOutcome.FAILED).saved_s is None


def test_a_directory_with_too_many_objects_is_not_looked_through(outside, runs, monkeypatch):
    monkeypatch.setattr(final_state, "MOST_OBJECTS", 2)
    for number in range(3):
        runs.put_if_absent(f"step-{number}", b"x")
    assert told(outside, AttemptOutcome.FAILED).saved_s is None


@pytest.mark.parametrize("outcome", [AttemptOutcome.PREEMPTED, AttemptOutcome.LOST])
def test_of_a_lost_slice_the_bucket_is_asked_what_its_workers_said_last(outside, outcome):
    status = {"phase": "ended", "stage": "run", "exit_status": 0, "closed": True}
    outside.store.put_if_absent("tpuctl/jobs/j/status/a1/w1", json.dumps(status).encode())
    (left,) = told(outside, outcome).final_reports
    assert (left.worker_id, left.phase, left.exit_status) == (1, "ended", 0)


def test_only_an_attempt_that_a_step_ends_is_ending():
    ended = replace(JOB, attempts=(replace(ATTEMPT, state=AttemptState.ENDED),))
    assert final_state.ending_attempt(JOB, ended) == ended.attempts[0]
    assert final_state.ending_attempt(JOB, JOB) is None
    assert final_state.ending_attempt(ended, ended) is None
    again = replace(ended, attempts=(*ended.attempts, replace(ATTEMPT, number=2)))
    assert final_state.ending_attempt(JOB, again) == ended.attempts[0]
