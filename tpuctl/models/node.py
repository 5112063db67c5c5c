"""A node (one TPU slice) and its workers (its hosts)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

JOB_LABEL = "tpuctl-job"
"""The label of a job's own slices: its id."""


class NodeState(StrEnum):
    """The node states the API has; one it may add later is kept as the string it came as."""

    CREATING = "CREATING"
    READY = "READY"
    RESTARTING = "RESTARTING"
    REIMAGING = "REIMAGING"
    DELETING = "DELETING"
    REPAIRING = "REPAIRING"
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    STARTING = "STARTING"
    PREEMPTED = "PREEMPTED"
    TERMINATED = "TERMINATED"
    HIDING = "HIDING"
    HIDDEN = "HIDDEN"
    UNHIDING = "UNHIDING"
    UNKNOWN = "UNKNOWN"


FAILED_HEALTH = frozenset({"TIMEOUT", "UNHEALTHY_TENSORFLOW"})
"""Values of Node.Health that say that workers do not answer; maintenance passes by itself."""
LOST_STATES = frozenset({NodeState.PREEMPTED, NodeState.TERMINATED})
"""A node in one of these never comes back: delete it."""
FREE_STATES = frozenset({NodeState.STOPPED, *LOST_STATES})
"""A node in one of these costs nothing."""


class Provisioning(StrEnum):
    """How capacity is obtained, and so how it is priced."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"
    BEST_EFFORT = "best-effort"
    FLEX_START = "flex-start"
    UNKNOWN = "unknown"
    """On demand or flex-start: only JSON tells which, and could not be asked."""


class DiskMode(StrEnum):
    """How a data disk is attached, as the API spells it."""

    READ_WRITE = "READ_WRITE"
    READ_ONLY = "READ_ONLY"


@dataclass(frozen=True, slots=True)
class DataDisk:
    """A disk that exists already; `source` is its full path, `mode` as the API spells it."""

    source: str
    mode: str = DiskMode.READ_WRITE


@dataclass(frozen=True, slots=True)
class BootDisk:
    """How the workers' boot disks are encrypted; `kms_key` is the full name of a key."""

    kms_key: str = ""
    confidential_compute: bool = False


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something wrong that the service noticed on one worker."""

    kind: str
    details: str
    worker_id: str
    created_s: float


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What is announced for a node; the times are RFC 3339 texts, as the API has them."""

    kind: str
    status: str
    can_reschedule: bool
    window_start: str
    window_end: str
    latest_window_start: str


@dataclass(frozen=True, slots=True)
class Worker:
    """One host of a slice; `worker_id` is its index in the node's network endpoints."""

    worker_id: int
    ip_address: str
    external_ip: str | None = None


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A slice that the user asks for."""

    name: str
    zone: str
    accelerator_type: str
    runtime_version: str
    provisioning: str = Provisioning.ON_DEMAND
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    network: str | None = None
    subnetwork: str | None = None
    internal_ips: bool = False
    service_account: str | None = None
    scopes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    data_disks: tuple[DataDisk, ...] = ()
    boot_disk: BootDisk | None = None
    shielded_secure_boot: bool = False
    description: str = ""
    autocheckpoint: bool = False
    reservation: str | None = None
    """One of the zone, or the full name of another; none means any of the project's."""


@dataclass(slots=True)  # not frozen: making a thousand of those takes 1.3 ms more
class ListedNode:
    """The fields of a node that a list shows; lists read no other fields."""

    name: str
    zone: str
    accelerator_type: str
    state: str
    worker_count: int
    provisioning: str
    created_s: int
    queued_resource: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those that limit how long it lives."""


@dataclass(frozen=True, slots=True)
class Node:
    """One TPU slice as the API describes it."""

    name: str
    zone: str
    node_id: int
    accelerator_type: str
    runtime_version: str
    state: str
    provisioning: str
    created_s: float
    health: str = ""
    description: str = ""
    queued_resource: str | None = None
    workers: tuple[Worker, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    health_description: str = ""
    symptoms: tuple[Symptom, ...] = ()
    maintenance: Maintenance | None = None
    network: str = ""
    subnetwork: str = ""
    internal_ips: bool = False
    """Its workers were asked for without external addresses."""
    service_account: str = ""
    scopes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    data_disks: tuple[DataDisk, ...] = ()
    boot_disk: BootDisk | None = None
    shielded_secure_boot: bool = False
    autocheckpoint: bool = False
    is_multislice: bool = False

    @property
    def worker_count(self) -> int:
        """The number of hosts of the slice."""
        return len(self.workers)
