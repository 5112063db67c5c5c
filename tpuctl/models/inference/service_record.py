"""A service: replicas of a model that answer requests, and the record of what becomes of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tpuctl.models.job import JobSpec


class ReplicaState(StrEnum):
    """The state of a replica, as `service describe` shows it."""

    WAITING = "WAITING"
    """Its slice is not there yet, or its workers are prepared."""
    LOADING = "LOADING"
    """Its command runs, and its ready path does not answer 200 yet."""
    READY = "READY"
    DRAINING = "DRAINING"
    """It gets no new requests; its job ends when those it has are answered."""
    FAILED = "FAILED"
    """Its job has ended without being asked to."""
    ENDED = "ENDED"


ROUTED_STATES = frozenset({ReplicaState.READY})
"""Replicas in these states get new requests."""


@dataclass(frozen=True, slots=True)
class ReplicaAddress:
    """Where the engine of a replica listens: a port of one worker."""

    zone: str
    node: str
    worker_id: int
    ip_address: str
    external_ip: str | None
    port: int


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica: a job whose program is the engine."""

    number: int
    """Given once in a service's life."""
    job_id: str
    revision: int
    state: ReplicaState = ReplicaState.WAITING
    on_demand: bool = False
    address: ReplicaAddress | None = None
    """None while it has no slice."""
    created_s: float = 0.0
    attempt: int = 0
    """The attempt of its job that `address` and `ready_s` are of."""
    ready_s: float | None = None
    """When it was first READY on the slice that it has now."""
    unready_since_s: float | None = None
    """Since when its ready path does not answer 200, though it did before on this slice."""
    drained_since_s: float | None = None
    """Since when it gets no new requests."""
    ended_s: float | None = None
    """When it FAILED, or when its job and slice were gone."""
    why: str = ""
    """Why it drains or failed."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One version of a service: a job file that was submitted or given to an update."""

    number: int
    spec: JobSpec
    created_s: float
    workdir_sha256: str | None = None
    workdir_key: str | None = None
    """The object with its working directory: that of an earlier revision where it is the same."""
    regions: tuple[str, ...] = ()
    """Of the context's bucket, as known when it was submitted: where its slices are asked for."""
    usd_per_hour: float | None = None
    """Of one replica as `resources` says; None: no list price is known."""
    on_demand_usd_per_hour: float | None = None
    """Of one of the on-demand replicas."""
    ready_s: float | None = None
    """When its first replica was READY."""
    failure: str = ""
    """Why its rollout was given up; empty: it was not."""
    over_budget: bool = False
    """No limit of the context holds for its replicas: somebody insisted."""
    same_engine_as: int | None = None
    """The earlier revision whose replicas are as good: only limits and times are others."""

    @property
    def engine(self) -> int:
        """The number of the first revision with this engine."""
        return self.same_engine_as or self.number


class ServiceState(StrEnum):
    """The state of a service, as `service list` shows it."""

    STARTING = "STARTING"
    """No replica has been READY yet."""
    READY = "READY"
    """As many replicas are READY as it wants."""
    UPDATING = "UPDATING"
    """Replicas of an older revision are replaced one by one."""
    DEGRADED = "DEGRADED"
    """Fewer replicas are READY than it wants."""
    IDLE = "IDLE"
    """It wants no replica: nobody asks."""
    DELETING = "DELETING"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class ServiceEvent:
    """A change of a service, as a line for people."""

    time_s: float
    text: str


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """The whole state of a service, as it is kept in the bucket."""

    name: str
    owner: str
    created_s: float
    revisions: tuple[Revision, ...]
    """The oldest first; the last one is wanted, unless its rollout was given up."""
    host_id: str = ""
    """The machine and context it was submitted from: only there its secrets are known."""
    fence: int = 0
    state: ServiceState = ServiceState.STARTING
    why: str = "waiting for a supervisor"
    wanted_replicas: int = 0
    replicas: tuple[Replica, ...] = ()
    next_number: int = 1
    """Of the next replica."""
    fewer_since_s: float | None = None
    """Since when fewer replicas than wanted would do."""
    fewer_replicas: int = 0
    """The most that would have done since then."""
    failures: int = 0
    """How many replicas in a row have failed before they were READY for long."""
    failed_s: float | None = None
    """When a replica failed last."""
    failed_number: int = 0
    """The number of that replica."""
    delete_requested_s: float | None = None
    ended_s: float | None = None
    events: tuple[ServiceEvent, ...] = ()

    @property
    def revision(self) -> Revision:
        """The revision that is wanted: the newest whose rollout was not given up."""
        return next(
            (each for each in reversed(self.revisions) if not each.failure), self.revisions[-1]
        )

    @property
    def ready_replicas(self) -> int:
        """How many replicas are READY."""
        return sum(each.state == ReplicaState.READY for each in self.replicas)

    @property
    def is_deleting(self) -> bool:
        """Whether somebody has asked for its end."""
        return self.delete_requested_s is not None

    def revision_of(self, replica: Replica) -> Revision:
        """The revision that a replica is of."""
        return next(each for each in self.revisions if each.number == replica.revision)


@dataclass(frozen=True, slots=True)
class ProxyReport:
    """What one proxy of a service says of its load; written every few seconds while it changes."""

    proxy_id: str
    in_flight: Mapping[str, int] = field(default_factory=dict)
    """Replica number, as text -> requests that it has from this proxy now."""
    queued: int = 0
    """Requests that wait for a replica."""
    routed: tuple[int, ...] = ()
    """Numbers of the replicas that this proxy would send a new request to now."""
    requests_total: int = 0
    updated_s: float = 0.0
