"""A service's replicas as jobs in memory, with proxies and a clock in the test's hand."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tpuctl.jobs.services import rollout
from tpuctl.jobs.services.reconcile_service import reconcile_service
from tpuctl.jobs.services.service_events import RUNNING_STATES
from tpuctl.jobs.services.service_observation import (
    CancelReplica,
    ReplicaSlice,
    SeenReport,
    ServiceObservation,
    SubmitReplica,
)
from tpuctl.models.inference.serve_spec import ReplicaRange, ServeSpec
from tpuctl.models.inference.service_record import (
    ProxyReport,
    Replica,
    ReplicaAddress,
    ReplicaState,
    Revision,
    ServiceRecord,
)
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    JobRecord,
    JobSpec,
    JobState,
    Phase,
    Resources,
    WorkerReport,
)

ZONE = "us-west4-a"
DRAIN_S = 30.0
START_S = 300.0


def spec_of(limits: ReplicaRange, command: str = "serve", *, spot: bool = True) -> JobSpec:
    serve = ServeSpec(command, 8000, replicas=limits, drain_s=DRAIN_S, start_s=START_S)
    resources = Resources("v5litepod-4", use_spot=spot)
    return JobSpec("digits", command, resources=resources, serve=serve)


@dataclass
class Proxy:
    """A proxy as its reports show it."""

    in_flight: dict[str, int] = field(default_factory=dict)
    queued: int = 0
    routed: tuple[int, ...] = ()
    seen_s: float = 0.0


@dataclass
class World:
    """One service; a step takes one second."""

    limits: ReplicaRange = ReplicaRange()
    spec: JobSpec | None = None
    now_s: float = 1000.0
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    ready: dict[str, bool] = field(default_factory=dict)
    """By job, whether its engine answers 200."""
    broken: set[int] = field(default_factory=set)
    """Revisions whose engines fail."""
    stuck: set[int] = field(default_factory=set)
    """Replicas whose engines do not get ready."""
    proxies: list[Proxy] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    is_slow: bool = False
    """Slices do not come, and engines do not get ready."""

    def __post_init__(self) -> None:
        spec = self.spec or spec_of(self.limits)
        self.record = ServiceRecord(
            "digits", "me@laptop", self.now_s, (Revision(1, spec, self.now_s),),
            wanted_replicas=max(1, self.limits.min),
        )  # fmt: skip

    # ---------------------------------------------------------- what is looked at

    def replicas(self, *states: ReplicaState) -> list[Replica]:
        return [each for each in self.record.replicas if not states or each.state in states]

    @property
    def running(self) -> list[Replica]:
        return [each for each in self.record.replicas if each.state in RUNNING_STATES]

    @property
    def ready_count(self) -> int:
        return self.record.ready_replicas

    def job(self, number: int) -> JobRecord:
        replica = next(each for each in self.record.replicas if each.number == number)
        return self.jobs[replica.job_id]

    def texts(self) -> str:
        return "\n".join(each.text for each in self.record.events)

    # ---------------------------------------------------------- what happens

    def steps(self, count: int = 1) -> None:
        for _ in range(count):
            self.step()

    def steps_until(self, is_so: Callable[[], bool], most: int) -> None:
        for _ in range(most):
            if is_so():
                return
            self.step()

    def step(self) -> None:
        self.now_s += 1.0
        self._advance_jobs()
        step = reconcile_service(self.record, self.observed())
        self.record = step.record
        for action in step.actions:
            replica = next(e for e in self.record.replicas if e.number == action.number)
            if isinstance(action, SubmitReplica):
                assert replica.job_id not in self.jobs
                self._submit(replica)
            elif isinstance(action, CancelReplica):
                self.cancelled.append(replica.number)
                self.change(replica.number, cancel_requested_s=self.now_s)

    def observed(self) -> ServiceObservation:
        jobs = {each.job_id: self.jobs.get(each.job_id) for each in self.record.replicas}
        slices = {}
        for replica in self.record.replicas:
            job = self.jobs.get(replica.job_id)
            attempt = job.attempt if job else None
            if attempt is not None and attempt.state == AttemptState.RUNNING:
                address = ReplicaAddress(ZONE, replica.job_id, 0, "10.0.0.1", None, 8000)
                is_ready = self.ready.get(replica.job_id, False)
                slices[replica.number] = ReplicaSlice(attempt.number, address, is_ready)
        reports = tuple(
            SeenReport(
                ProxyReport(str(i), dict(each.in_flight), each.queued, each.routed), each.seen_s
            )
            for i, each in enumerate(self.proxies)
        )
        return ServiceObservation(self.now_s, jobs, slices, proxies=reports)

    def change(self, number: int, **fields) -> None:
        job = self.job(number)
        self.jobs[job.job_id] = replace(job, **fields)

    def change_attempt(self, number: int, **fields) -> None:
        job = self.job(number)
        newest = replace(job.attempts[-1], **fields)
        self.change(number, attempts=(*job.attempts[:-1], newest))

    def notify(self, number: int, notice: str = "preempted") -> None:
        """Its worker tells of its preemption."""
        self.change_attempt(number, workers=(WorkerReport(0, Phase.RUNNING, notice=notice),))

    def lose(self, number: int) -> None:
        """Its slice is preempted without a notice; its job waits for another one."""
        job = self.job(number)
        self.ready[job.job_id] = False
        lost = replace(job.attempts[-1], state=AttemptState.ENDED, deleted_s=self.now_s,
                       outcome=AttemptOutcome.PREEMPTED)  # fmt: skip
        self.change(number, state=JobState.RECOVERING, attempts=(*job.attempts[:-1], lost),
                    why="attempt 1 preempted")  # fmt: skip

    def fail(self, number: int, why: str = "the program ended with status 1") -> None:
        self.change(number, state=JobState.FAILED, ended_s=self.now_s, why=why)

    def update(self, spec: JobSpec) -> None:
        number = self.record.revisions[-1].number + 1
        newest = self.record.revisions[-1]
        added = rollout.with_engine_of(Revision(number, spec, self.now_s), newest)
        revisions = (*self.record.revisions, added)
        self.record = replace(self.record, revisions=revisions, failures=0)

    def delete(self) -> None:
        self.record = replace(self.record, delete_requested_s=self.now_s)

    def write_reports(self) -> None:
        """Every proxy has read the record, and writes what is true now."""
        ready = tuple(each.number for each in self.replicas(ReplicaState.READY))
        for proxy in self.proxies:
            proxy.routed, proxy.seen_s = ready, self.now_s

    def _submit(self, replica: Replica) -> None:
        resources = Resources("v5litepod-4", use_spot=not replica.on_demand)
        spec = replace(self.record.revision_of(replica).spec, resources=resources)
        self.jobs[replica.job_id] = JobRecord(
            replica.job_id, spec, "me@laptop", self.now_s, ZONE, "v5litepod-4"
        )

    def _advance_jobs(self) -> None:
        """A slice comes in one second, and its engine is ready in another one."""
        for replica in self.record.replicas:
            job = self.jobs.get(replica.job_id)
            if job is None or job.is_settled:
                continue
            if job.is_ended or job.cancel_requested_s is not None:
                self._settle(replica.number, job)
            elif self.is_slow:
                continue
            elif job.attempt is None or job.attempt.state == AttemptState.ENDED:
                number = len(job.attempts) + 1
                attempt = Attempt(number, ZONE, f"{job.job_id}-a{number}", AttemptState.RUNNING,
                                  owned=True, queued_resource=f"{job.job_id}-a{number}",
                                  worker_count=1, started_s=self.now_s)  # fmt: skip
                self.change(replica.number, state=JobState.RUNNING,
                            attempts=(*job.attempts, attempt))  # fmt: skip
            elif replica.revision in self.broken:
                self.fail(replica.number)
            elif not job.attempts[-1].workers:
                self.ready[job.job_id] = replica.number not in self.stuck
                self.change_attempt(replica.number, workers=(WorkerReport(0, Phase.RUNNING),))

    def _settle(self, number: int, job: JobRecord) -> None:
        attempts = tuple(
            replace(each, state=AttemptState.ENDED, deleted_s=self.now_s) for each in job.attempts
        )
        state = job.state if job.is_ended else JobState.CANCELLED
        self.change(number, state=state, attempts=attempts, ended_s=self.now_s)
        self.ready[job.job_id] = False
