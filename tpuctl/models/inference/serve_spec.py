"""The section `serve` of a job file: how an engine is started, and how many replicas it has."""

from dataclasses import dataclass
from enum import StrEnum


class ServeHosts(StrEnum):
    """Which workers of a replica's slice run the command; worker 0 answers the requests."""

    SINGLE = "single"
    """The slice has one worker."""
    ALL = "all"
    """Every worker runs the command, as a program of several JAX processes does."""
    RAY = "ray"
    """Worker 0 runs the command as the driver of a Ray cluster over all workers."""


@dataclass(frozen=True, slots=True)
class ReplicaRange:
    """How many replicas a service has, and what decides the number."""

    min: int = 1
    """0: the service has no replica while nobody asks."""
    max: int = 1
    on_demand: int = 0
    """So many of them are on-demand; the others are what `resources` says."""
    in_flight: float = 8.0
    """Requests in flight for each replica: with more a replica is added, with fewer one goes."""
    idle_s: float = 600.0
    """For so long fewer replicas must do before one goes."""


@dataclass(frozen=True, slots=True)
class ServeSpec:
    """The section `serve` of a job file."""

    command: str
    """Lines for bash that start the engine: it listens at `port` of every address."""
    port: int
    ready: str = "/health"
    """The path that answers 200 once the engine takes requests."""
    replicas: ReplicaRange = ReplicaRange()
    drain_s: float = 30.0
    """For so long a replica may finish its requests after it gets no new ones."""
    start_s: float = 1800.0
    """For so long the command may run before `ready` answers 200; then the replica has failed."""
    hosts: ServeHosts = ServeHosts.SINGLE
    checkpoint: str | None = None
    """What the command loads, as its variable TPUCTL_CHECKPOINT."""


@dataclass(frozen=True, slots=True)
class ReplicaOf:
    """What a job is a replica of."""

    service: str
    revision: int
    number: int
