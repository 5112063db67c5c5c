"""Random histories of one job: it ends, creates nothing twice, and leaves nothing behind."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tpuctl.jobs.actions import Attach, DeleteSlice, RequestSlice, Start, Stop
from tpuctl.jobs.observed import ABSENT, Observed
from tpuctl.jobs.reconcile import reconcile
from tpuctl.models.job import (
    JobRecord,
    JobSpec,
    Outcome,
    Phase,
    Resources,
    Restart,
    Teardown,
    WorkerReport,
)

JOB_ID = "digits-a1b2c3"
PREPARED, RUNNING, LOST = {"phase": Phase.PREPARED}, {"phase": Phase.RUNNING}, {"phase": Phase.LOST}
WELL = {"phase": Phase.ENDED, "stage": "run", "closed": True, "exit_status": 0}
FAILED = {**WELL, "exit_status": 1}
STOPPED = {**WELL, "exit_status": None, "signal": 15, "stopped": True}


class Sky:
    """A cloud and two workers, as far as one job can tell."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.requests: dict[str, str] = {}
        self.nodes = {"mine": "READY"}
        self.attempt = 0
        self.reports: list[dict] = []
        self.away = False
        self.created: list[str] = []

    def observed(self, record: JobRecord) -> Observed:
        self.now_s += 1.0
        newest = record.attempt
        if self.away or newest is None:
            return Observed(self.now_s)
        names = [each.queued_resource for each in record.attempts if each.queued_resource]
        reports = self.reports if newest.number == self.attempt else []
        return Observed(
            self.now_s,
            requests={name: self.requests.get(name, ABSENT) for name in names},
            node=self.nodes.get(newest.node, ABSENT),
            node_checked_s=self.now_s,
            worker_count=2,
            workers=tuple(WorkerReport(i, **report) for i, report in enumerate(reports)),
        )

    def act(self, action) -> None:
        match action:
            case RequestSlice(attempt):
                assert attempt.queued_resource not in self.created, "created twice"
                assert not self.requests, "two slices at once"
                self.created.append(attempt.queued_resource)
                self.requests[attempt.queued_resource] = "ACTIVE"
                self.nodes[attempt.queued_resource] = "READY"
            case DeleteSlice(_, name):
                assert name.startswith(JOB_ID), "deleted what is not the job's"
                self.requests.pop(name, None)
                self.nodes.pop(name, None)
            case Attach(attempt) if attempt.number != self.attempt:
                self.attempt, self.reports = attempt.number, [PREPARED, PREPARED]
            case Start():
                self.change(PREPARED, RUNNING)
            case Stop():
                self.change(PREPARED, STOPPED)
                self.change(RUNNING, STOPPED)

    def change(self, before: dict, after: dict) -> None:
        self.reports = [after if report == before else report for report in self.reports]

    def happen(self, fate: str, record: JobRecord) -> None:
        node = record.attempt.node if record.attempt else ""
        if fate == "away":
            self.away = not self.away
        elif fate == "preempt" and node in self.nodes:
            self.nodes[node] = "PREEMPTED"
            self.requests.update({node: "SUSPENDED"} if node in self.requests else {})
        elif fate in WORKER_FATES and RUNNING in self.reports:
            self.reports[self.reports.index(RUNNING)] = WORKER_FATES[fate]


WORKER_FATES = {"fail": FAILED, "lose": LOST, "end": WELL}
FATES = ["nothing", "preempt", "away", "cancel", "supervisor dies", *WORKER_FATES]


def turn(record: JobRecord, sky: Sky, *, dies: bool = False) -> JobRecord:
    """One reconcile step; a supervisor that dies has written the record and acts no more."""
    step = reconcile(record, sky.observed(record))
    for action in () if dies else step.actions:
        sky.act(action)
    return step.record


def wild(record: JobRecord, sky: Sky, fates: list[str]) -> JobRecord:
    for fate in fates:
        if fate == "cancel" and not record.is_ended:
            record = replace(record, cancel_requested_s=sky.now_s)
        sky.happen(fate, record)
        record = turn(record, sky, dies=fate == "supervisor dies")
    return record


def calm(record: JobRecord, sky: Sky) -> JobRecord:
    """From here on nothing happens but that programs end well."""
    sky.away = False
    for _ in range(200):
        if not record.is_settled:
            sky.change(RUNNING, WELL)
            record = turn(record, sky)
    return record


@settings(max_examples=300, deadline=None)
@given(
    fates=st.lists(st.sampled_from(FATES), max_size=60),
    own=st.booleans(),
    failure=st.integers(0, 2),
    preemption=st.booleans(),
    teardown=st.sampled_from(list(Teardown)),
)
def test_every_job_ends_and_leaves_nothing_behind(fates, own, failure, preemption, teardown):
    sky = Sky()
    submitted = JobRecord(
        job_id=JOB_ID,
        spec=JobSpec(
            name="digits",
            run="true",
            resources=Resources("v5litepod-16"),
            restart=Restart(preemption=preemption, failure=failure),
            teardown=teardown,
        ),
        owner="me",
        submitted_s=0.0,
        zone="us-west4-a",
        accelerator_type="v5litepod-16",
        node=None if own else "mine",
    )
    record = calm(wild(submitted, sky, fates), sky)
    assert record.is_settled, record.why
    failures = [each for each in record.attempts if each.outcome == Outcome.FAILED]
    assert len(failures) <= failure + 1
    assert [each.number for each in record.attempts] == list(range(1, len(record.attempts) + 1))
    assert (record.state == "SUCCEEDED") == (record.attempts[-1:] != () and
        record.attempts[-1].outcome == Outcome.SUCCEEDED)  # fmt: skip
    if teardown == Teardown.ALWAYS:
        assert sky.requests == {}
    assert "mine" in sky.nodes
