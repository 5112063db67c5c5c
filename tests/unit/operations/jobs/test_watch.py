"""Waiting for a job over a directory store: what is yielded, and how it ends."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tpuctl.config import Context
from tpuctl.errors import DeadlineError
from tpuctl.jobs.leases import lease
from tpuctl.jobs.record import record_store
from tpuctl.jobs.submit.job_submission import default_owner
from tpuctl.models.job import JobRecord, JobSpec, JobState
from tpuctl.operations.jobs.events import JobChanged, Unsupervised
from tpuctl.operations.jobs.supervision import wait_until_settled
from tpuctl.store import Store, open_store

JOB = JobRecord("digits-1", JobSpec("digits", "true"), default_owner(), 1.0, "z", "v5litepod-4")


@dataclass
class Bench:
    """The part of a runtime that waiting uses; `changes` happen one at each pause."""

    bucket: Store
    home: Path
    changes: list[JobRecord] = field(default_factory=list)
    context: Context = field(default_factory=lambda: Context("lab", "p", "z", "b"))

    def store(self, url=None) -> Store:
        """The only bucket."""
        return self.bucket

    def now(self) -> float:
        """The wall clock."""
        return 1.0

    def sleep(self, _seconds: float) -> None:
        """Let the next change happen."""
        if self.changes:
            stored = record_store.load(self.bucket, JOB.job_id)
            record_store.save(self.bucket, self.changes.pop(0), stored.generation)


@pytest.fixture
def bench(tmp_path):
    """A bucket with one job that nobody looks after."""
    bucket = open_store(str(tmp_path / "bucket"))
    lease.offer(bucket, JOB.job_id, JOB.owner)
    record_store.create(bucket, JOB)
    return Bench(bucket, tmp_path / "home")


def drain(working):
    """What a generator yields, and what it returns."""
    events = []
    while True:
        try:
            events.append(next(working))
        except StopIteration as end:
            return events, end.value


def test_each_reason_is_yielded_once_and_the_last_record_returned(bench):
    running = replace(JOB, state=JobState.RUNNING, why="it runs")
    bench.changes = [running, replace(running, fence=2), replace(running, state=JobState.SUCCEEDED,
                     why="it ended", ended_s=2.0)]  # fmt: skip
    events, ended = drain(wait_until_settled(bench, JOB))
    reasons = [event.job.why for event in events if isinstance(event, JobChanged)]
    assert reasons == ["waiting for a supervisor", "it runs", "it ended"]
    assert ended.state == JobState.SUCCEEDED
    assert [event.jobs[0].job_id for event in events if isinstance(event, Unsupervised)] == [
        JOB.job_id
    ]


def test_a_deadline_names_the_command_that_looks_after_the_job(bench):
    with pytest.raises(DeadlineError, match="'digits-1' is still QUEUED") as caught:
        drain(wait_until_settled(bench, JOB, 0.0))
    assert caught.value.hint == "nobody looks after it; run: tpuctl supervisor run"
