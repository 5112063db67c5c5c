"""Random histories of one job: it ends, creates nothing twice, and leaves nothing behind."""

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tpuctl.jobs.policy import budget
from tpuctl.jobs.policy.actions import (
    ConnectWorkers,
    DeleteSlice,
    RequestSlice,
    StartWorkers,
    StopWorkers,
)
from tpuctl.jobs.policy.observation import ABSENT, JobObservation, SliceRefusal, ZoneHealth
from tpuctl.jobs.policy.reconcile import reconcile
from tpuctl.jobs.record import status_text
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    Budget,
    JobRecord,
    JobSpec,
    Phase,
    Resources,
    Restart,
    Teardown,
    Timeouts,
    WorkerReport,
)

JOB_ID = "digits-a1b2c3"
ZONES = ("us-west4-a", "europe-west4-b")
PREPARED, RUNNING, LOST = {"phase": Phase.PREPARED}, {"phase": Phase.RUNNING}, {"phase": Phase.LOST}
WELL = {"phase": Phase.ENDED, "stage": "run", "closed": True, "exit_status": 0}
FAILED = {**WELL, "exit_status": 1, "traceback": "ValueError: nan"}
STOPPED = {**WELL, "exit_status": None, "signal": 15, "stopped": True}
SILENT = {**RUNNING, "unreachable_s": 100.0}
UNREACHED: dict = {}
BAD_SETUP = {**WELL, "stage": "setup", "exit_status": 1}
HANG_S = 900.0
WORKER_FATES = {"fail": FAILED, "lose": LOST, "end": WELL, "fall silent": SILENT}
FATES = [
    "nothing", "preempt", "notice", "away", "cancel", "supervisor dies", "drought", "rain", "queue",
    "no quota", "hang", "hours pass", "bad worker", "bad setup", "made anew", "reply lost",
    "it deletes itself", *WORKER_FATES,
]  # fmt: skip


@dataclass
class Sky:
    """A cloud and two workers, as far as one job can tell."""

    now_s: float = 0.0
    requests: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=lambda: {"mine": "READY"})
    zones: dict[str, str] = field(default_factory=dict)
    attempt: int = 0
    reports: list[dict] = field(default_factory=list)
    final_reports: list[dict] = field(default_factory=list)
    away: bool = False
    supply: str = "ACTIVE"
    quota: bool = True
    quiet_s: float = 0.0
    beginning: list[dict] = field(default_factory=lambda: [PREPARED, PREPARED])
    generation: int = 1
    reply_lost: bool = False
    saved_s: float = 0.0
    created: list[str] = field(default_factory=list)

    def observed(self, record: JobRecord) -> JobObservation:
        self.now_s += 1.0
        newest = record.attempt
        known = {zone: ZoneHealth(has_quota=self.quota, quota="0 left") for zone in ZONES}
        if self.away:
            return JobObservation(self.now_s)
        if newest is None:
            return JobObservation(self.now_s, zone_health=known, looked_s=self.now_s)
        names = [each.queued_resource for each in record.attempts if each.queued_resource]
        reports = self.reports if newest.number == self.attempt else []
        return JobObservation(
            self.now_s,
            looked_s=self.now_s,
            zone_health=known,
            requests={name: self.requests.get(name, ABSENT) for name in names},
            refusal=self._refusal(newest.queued_resource),
            node=self._node(newest.nodes),
            node_checked_s=self.now_s,
            node_ids=(self.generation,) * newest.slices,
            worker_count=2,
            workers=tuple(
                WorkerReport(i, **{"quiet_s": self.quiet_s, **each})
                for i, each in enumerate(reports)
            ),
            final_reports=tuple(
                WorkerReport(i, **each) for i, each in enumerate(self.final_reports)
            ),
            saved_s=self.saved_s,
        )

    def act(self, action) -> None:
        match action:
            case RequestSlice(attempt):
                self._create(attempt)
            case DeleteSlice(zone, name):
                assert name.startswith(JOB_ID), "deleted what is not the job's"
                assert self.zones.get(name, zone) == zone, "looked for in the wrong zone"
                self.requests.pop(name, None)
                for node in [each for each in self.nodes if each.startswith(name)]:
                    del self.nodes[node]
            case ConnectWorkers(attempt) if attempt.number != self.attempt:
                self.attempt, self.reports, self.final_reports = (
                    attempt.number,
                    list(self.beginning),
                    [],
                )
            case StartWorkers():
                self.change(PREPARED, RUNNING)
            case StopWorkers():
                for going in (PREPARED, RUNNING):
                    self.change(going, STOPPED)
                self.quiet_s = 0.0

    def _create(self, attempt) -> None:
        name = attempt.queued_resource
        if name in self.requests:
            assert self.reply_lost, "asked again for what was seen"
            return
        assert name not in self.created, "created twice"
        assert not self.requests, "two slices at once"
        self.created.append(name)
        self.requests[name] = self.supply
        self.zones[name] = attempt.zone
        if self.supply == "ACTIVE":
            self.nodes.update(dict.fromkeys(attempt.nodes, "READY"))

    def _refusal(self, name: str | None) -> SliceRefusal | None:
        if self.requests.get(name or "") != "FAILED":
            return None
        return SliceRefusal("no more capacity", "no_capacity", name or "", is_shortage=True)

    def _node(self, names: tuple[str, ...]) -> str:
        states = {self.nodes.get(name, ABSENT) for name in names}
        return next(iter(states - {"READY"}), "READY")

    def change(self, before: dict, after: dict) -> None:
        self.reports = [after if report == before else report for report in self.reports]

    def happen(self, fate: str, record: JobRecord) -> None:
        weathers = {"drought": "FAILED", "queue": "WAITING_FOR_RESOURCES", "rain": "ACTIVE"}
        self.supply = weathers.get(fate, self.supply)
        beginnings = {
            "bad worker": [PREPARED, UNREACHED], "bad setup": [BAD_SETUP, PREPARED],
            "rain": [PREPARED, PREPARED],
        }  # fmt: skip
        self.beginning = beginnings.get(fate, self.beginning)
        self.away ^= fate == "away"
        self.quota ^= fate == "no quota"
        self.now_s += 5000.0 if fate == "hours pass" else 0.0
        if fate == "hang":
            self.quiet_s = 2 * HANG_S
        self._befall(fate, record)

    def _befall(self, fate: str, record: JobRecord) -> None:
        attempt = record.attempt
        if attempt is None:
            return
        if fate == "preempt" and attempt.nodes[-1] in self.nodes:
            self.nodes[attempt.nodes[-1]] = "PREEMPTED"
        elif fate == "made anew":
            self.generation += 1
        elif fate == "notice":
            self.change(RUNNING, {**STOPPED, "stopped": False, "preempted": True})
        elif fate == "it deletes itself" and attempt.owned and self._runs(attempt):
            self.final_reports = [WELL, WELL]
            self.act(DeleteSlice(attempt.zone, attempt.queued_resource))
        elif fate in WORKER_FATES and self._runs(attempt):
            self.reports[self.reports.index(RUNNING)] = WORKER_FATES[fate]

    def _runs(self, attempt: Attempt) -> bool:
        return attempt.number == self.attempt and RUNNING in self.reports

    def settle(self) -> None:
        """From here on there is plenty of everything, and programs end well."""
        self.away, self.quota, self.supply, self.quiet_s = False, True, "ACTIVE", 0.0
        self.beginning = [PREPARED, PREPARED]
        self.change(RUNNING, WELL)
        for name, state in self.requests.items():
            if state == "WAITING_FOR_RESOURCES":
                self.requests[name] = "ACTIVE"
                self.nodes.update(dict.fromkeys((name, f"{name}-0", f"{name}-1"), "READY"))


def turn(record: JobRecord, sky: Sky, *, dies: bool = False, reply_lost: bool = False) -> JobRecord:
    """One reconcile step; a supervisor that dies has written the record and acts no more."""
    step = reconcile(record, sky.observed(record))
    for action in () if dies else step.actions:
        sky.act(action)
        if reply_lost and isinstance(action, RequestSlice):
            sky.reply_lost = True
            sky.act(action)
    assert status_text.current_status(step.record, sky.now_s)
    return step.record


def wild(record: JobRecord, sky: Sky, fates: list[str]) -> JobRecord:
    for fate in fates:
        if fate == "cancel" and not record.is_ended:
            record = replace(record, cancel_requested_s=sky.now_s)
        sky.happen(fate, record)
        record = turn(record, sky, dies=fate == "supervisor dies", reply_lost=fate == "reply lost")
    return record


def calm(record: JobRecord, sky: Sky) -> JobRecord:
    for _ in range(200):
        if not record.is_settled:
            sky.settle()
            sky.now_s += 60.0
            record = turn(record, sky)
    return record


SPECS = st.builds(
    JobSpec,
    name=st.just("digits"),
    run=st.just("true"),
    resources=st.builds(Resources, st.just("v5litepod-16"), num_slices=st.sampled_from((1, 2))),
    restart=st.builds(Restart, preemption=st.booleans(), failure=st.integers(0, 3)),
    timeouts=st.builds(Timeouts, hang_s=st.sampled_from((None, HANG_S))),
    budget=st.builds(Budget, hours=st.sampled_from((None, 2.0))),
    teardown=st.sampled_from(list(Teardown)),
)


@settings(max_examples=300)
@given(
    fates=st.lists(st.sampled_from(FATES), max_size=60),
    own=st.booleans(),
    several=st.booleans(),
    spec=SPECS,
)
def test_every_job_ends_and_leaves_nothing_behind(fates, own, several, spec):
    sky = Sky()
    submitted = JobRecord(
        job_id=JOB_ID,
        spec=spec,
        owner="me",
        submitted_s=0.0,
        zone=ZONES[0],
        zones=ZONES if several else ZONES[:1],
        accelerator_type="v5litepod-16",
        node=None if own else "mine",
    )
    record = calm(wild(submitted, sky, fates), sky)
    assert record.is_settled, record.why
    failures = [each for each in record.attempts if each.outcome in ("failed", "hung")]
    assert len(failures) <= spec.restart.failure + 1
    assert [each.number for each in record.attempts] == list(range(1, len(record.attempts) + 1))
    well = record.attempt is not None and record.attempt.outcome == AttemptOutcome.SUCCEEDED
    assert (record.state == "SUCCEEDED") == well
    assert {each.zone for each in record.attempts} <= set(record.zones)
    if spec.teardown == Teardown.ALWAYS:
        assert sky.requests == {}
    kept = {each.queued_resource for each in record.attempts if each.is_usable}
    assert set(sky.requests) <= kept, "what is not usable is kept"
    assert "mine" in sky.nodes
    if spec.budget.hours and budget.used_hours(record, sky.now_s) > spec.budget.hours:
        assert record.is_ended
    assert record.next_s is None
