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
from tpuctl.models.search import Place, Search, SearchOrder

JOB_ID = "digits-a1b2c3"
ZONES = ("us-west4-a", "europe-west4-b")
TYPES = ("v5litepod-16", "v6e-16")
PRICES_USD = {TYPES[0]: 4.0, TYPES[1]: 10.0}
PLACES = tuple(
    Place(zone, kind, PRICES_USD[kind], distance)
    for kind in TYPES
    for distance, zone in enumerate(ZONES)
)
PREPARED, RUNNING, LOST = {"phase": Phase.PREPARED}, {"phase": Phase.RUNNING}, {"phase": Phase.LOST}
WELL = {"phase": Phase.ENDED, "stage": "run", "closed": True, "exit_status": 0}
FAILED = {**WELL, "exit_status": 1, "traceback": "ValueError: nan"}
STOPPED = {**WELL, "exit_status": None, "signal": 15, "stopped": True}
SILENT = {**RUNNING, "unreachable_s": 100.0}
UNREACHED: dict = {}
BAD_SETUP = {**WELL, "stage": "setup", "exit_status": 1}
HANG_S = 900.0
LATE_S = 150.0
WORKER_FATES = {"fail": FAILED, "lose": LOST, "end": WELL, "fall silent": SILENT}
FATES = [
    "nothing", "preempt", "notice", "away", "cancel", "supervisor dies", "drought", "rain", "queue",
    "no quota", "hang", "hours pass", "bad worker", "bad setup", "made again", "reply lost",
    "it deletes itself", "a zone is away", "one is granted", "two are granted", *WORKER_FATES,
]  # fmt: skip


@dataclass
class Sky:
    """A cloud and two workers, as far as one job can tell."""

    now_s: float = 0.0
    requests: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=lambda: {"mine": "READY"})
    zones: dict[str, str] = field(default_factory=dict)
    attempt: int = 0
    begun: dict[str, int] = field(default_factory=dict)
    """Slices on which the program was let begin, and for which attempt."""
    search: Search = Search()
    mute: bool = False
    """The second zone does not answer."""
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
    usd: dict[str, float] = field(default_factory=dict)
    is_slow: bool = False
    """The next create takes effect when its caller has long given it up."""
    late: list[tuple[float, Attempt]] = field(default_factory=list)

    def observed(self, record: JobRecord) -> JobObservation:
        self.now_s += 1.0
        for due_s, attempt in self.late:
            if due_s <= self.now_s and attempt.queued_resource not in self.created:
                self._add(attempt)
        newest = record.attempt
        health = ZoneHealth(has_quota=self.quota, quota="0 left")
        known = {(zone, kind): health for zone in ZONES for kind in TYPES}
        if self.away:
            return JobObservation(self.now_s)
        if newest is None:
            return JobObservation(self.now_s, zone_health=known, looked_s=self.now_s)
        names = self._askable(record)
        reports = self.reports if newest.number == self.attempt else []
        return JobObservation(
            self.now_s,
            looked_s=self.now_s,
            zone_health=known,
            requests={name: self.requests.get(name, ABSENT) for name in names},
            refusals=tuple(filter(None, map(self._refusal, names))),
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

    def _askable(self, record: JobRecord) -> list[str]:
        own = [each for each in record.attempts if each.queued_resource]
        zones = {each.queued_resource: each.zone for each in own}
        zones |= {each.name: each.zone for attempt in own for each in attempt.others}
        return [name for name, zone in zones.items() if not (self.mute and zone == ZONES[1])]

    def act(self, action) -> None:
        match action:
            case RequestSlice(attempt):
                self._create(attempt)
            case DeleteSlice(zone, name):
                assert name.startswith(JOB_ID), "deleted what is not the job's"
                assert self.zones.get(name, zone) == zone, "looked for in the wrong zone"
                self.requests.pop(name, None)
                for node in (name, f"{name}-0", f"{name}-1"):
                    self.nodes.pop(node, None)
            case ConnectWorkers(attempt) if attempt.number != self.attempt:
                self.attempt, self.reports, self.final_reports = (
                    attempt.number,
                    list(self.beginning),
                    [],
                )
            case StartWorkers(attempt):
                self._begin(attempt)
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
        if self.is_slow:
            self.is_slow = False
            self.late.append((self.now_s + LATE_S, attempt))
        else:
            self._add(attempt)

    def _add(self, attempt: Attempt) -> None:
        name = attempt.queued_resource
        assert name not in self.created, "created twice"
        assert len(self.requests) < self.search.at_once, "more requests than at once"
        self.created.append(name)
        self.requests[name] = self.supply
        self.zones[name] = attempt.zone
        self.usd[name] = PRICES_USD[attempt.accelerator_type]
        most = self.search.max_usd_per_hour
        assert most is None or sum(self.usd[each] for each in self.requests) <= most, "too dear"
        if self.supply == "ACTIVE":
            self.nodes.update(dict.fromkeys(attempt.nodes, "READY"))

    def _begin(self, attempt: Attempt) -> None:
        """The program runs on one slice, and never again on one that lost."""
        for node, number in self.begun.items():
            assert node == attempt.node or number < attempt.number, "two slices of one attempt"
            assert node == attempt.node or node not in self.requests, "two slices run the program"
        if PREPARED in self.reports:
            self.begun[attempt.node] = attempt.number

    def grant(self, count: int) -> None:
        """So many of the requests that wait become ACTIVE at the same moment, the last ones."""
        waiting = [name for name, state in self.requests.items() if state != "ACTIVE"]
        for name in waiting[-count:]:
            if self.requests[name] == "WAITING_FOR_RESOURCES":
                self.requests[name] = "ACTIVE"
                self.nodes.update(dict.fromkeys((name, f"{name}-0", f"{name}-1"), "READY"))

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
        self.mute ^= fate == "a zone is away"
        self.is_slow |= fate == "a create is late"
        self.grant({"one is granted": 1, "two are granted": 2}.get(fate, 0))
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
        elif fate == "made again":
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
        self.away, self.mute, self.quota, self.supply, self.quiet_s = (
            False,
            False,
            True,
            "ACTIVE",
            0.0,
        )
        self.beginning = [PREPARED, PREPARED]
        self.change(RUNNING, WELL)
        self.grant(len(self.requests))


def turn(
    record: JobRecord,
    sky: Sky,
    *,
    dies: bool = False,
    halfway: bool = False,
    reply_lost: bool = False,
) -> JobRecord:
    """One reconcile step; a supervisor that dies has written the record and acts no more."""
    step = reconcile(record, sky.observed(record))
    for before, attempt in zip(record.attempts, step.record.attempts, strict=False):
        if before.chosen_s is not None:
            assert (before.chosen_s, before.node) == (attempt.chosen_s, attempt.node)
        assert attempt.chosen_s is None or not any(other.is_open for other in attempt.others)
    for action in step.actions[: int(halfway)] if dies else step.actions:
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
        record = turn(
            record,
            sky,
            dies=fate.startswith("supervisor dies"),
            halfway=fate.endswith("halfway"),
            reply_lost=fate == "reply lost",
        )
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
SEARCHES = st.builds(
    Search,
    at_once=st.integers(2, 4),
    max_usd_per_hour=st.sampled_from((None, 15.0, 24.0)),
    patience_s=st.sampled_from((5.0, 600.0)),
    order=st.sampled_from(list(SearchOrder)),
)


@settings(max_examples=300)
@given(
    fates=st.lists(st.sampled_from(FATES), max_size=60),
    own=st.booleans(),
    several=st.booleans(),
    spec=SPECS,
)
def test_every_job_ends_and_leaves_nothing_behind(fates, own, several, spec):
    sky = Sky(search=spec.search)
    submitted = JobRecord(
        job_id=JOB_ID,
        spec=spec,
        owner="me",
        submitted_s=0.0,
        zone=ZONES[0],
        zones=ZONES if several else ZONES[:1],
        places=PLACES if several else PLACES[:1],
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


SEARCH_FATES = [
    "nothing", "a zone is away", "away", "one is granted", "two are granted", "supervisor dies",
    "supervisor dies halfway", "reply lost", "a create is late", "drought", "rain", "queue",
    "preempt", "no quota", "hours pass", "cancel",
]  # fmt: skip


@settings(max_examples=200)
@given(
    fates=st.lists(st.sampled_from(SEARCH_FATES), min_size=4, max_size=40),
    search=SEARCHES,
    num_slices=st.sampled_from((1, 2)),
    supply=st.sampled_from(("WAITING_FOR_RESOURCES", "ACTIVE", "FAILED")),
)
def test_of_requests_side_by_side_one_is_chosen_and_every_other_is_withdrawn(
    fates, search, num_slices, supply
):
    sky = Sky(search=search, supply=supply)
    resources = Resources(TYPES[0], alternatives=TYPES[1:], num_slices=num_slices)
    submitted = JobRecord(
        job_id=JOB_ID,
        spec=JobSpec("digits", "true", resources=resources, search=search),
        owner="me",
        submitted_s=0.0,
        zone=ZONES[0],
        zones=ZONES,
        places=PLACES,
        accelerator_type=TYPES[0],
    )
    record = calm(wild(submitted, sky, fates), sky)
    assert record.is_settled, record.why
    assert sky.requests == {}, "something is left"
    others = [other for attempt in record.attempts for other in attempt.others]
    asked = {each.queued_resource for each in record.attempts} | {each.name for each in others}
    assert set(sky.created) <= asked, "a request is deleted"
    assert all(other.deleted_s is not None and not other.is_open for other in others)
