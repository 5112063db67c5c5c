"""The world as one service sees it, and what is to be done for it, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tpuctl.models.inference.service_record import ProxyReport, ReplicaAddress
from tpuctl.models.job import JobRecord


@dataclass(frozen=True, slots=True)
class SeenReport:
    """The report of a proxy that lives."""

    report: ProxyReport
    first_seen_s: float
    """When the controller first saw it as it is."""


@dataclass(frozen=True, slots=True)
class ReplicaSlice:
    """The slice on which a replica's engine runs."""

    attempt: int
    """The number of the job's attempt."""
    address: ReplicaAddress
    is_ready: bool | None = None
    """Whether the ready path answered 200 when it was last asked; None: not asked yet."""


@dataclass(frozen=True, slots=True)
class ServiceObservation:
    """What one step of a service knows; unknown is missing or None."""

    now_s: float
    jobs: Mapping[str, JobRecord | None] = field(default_factory=dict)
    """By id, the jobs of its replicas; None: the bucket has no such job."""
    slices: Mapping[int, ReplicaSlice] = field(default_factory=dict)
    """By replica number."""
    refusals: Mapping[int, str] = field(default_factory=dict)
    """By replica number, why its job cannot be submitted, now or later."""
    proxies: tuple[SeenReport, ...] = ()
    """Of those that live."""


@dataclass(frozen=True, slots=True)
class SubmitReplica:
    """Put the job of a replica into the bucket."""

    number: int


@dataclass(frozen=True, slots=True)
class CancelReplica:
    """Ask for the end of a replica's job."""

    number: int


ServiceAction = SubmitReplica | CancelReplica
