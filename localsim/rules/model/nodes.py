"""A node: its specification, its state, and the state machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from localsim.rules.model.transitions import next_state
from localsim.worker_facts import GuestAttributesEntry, HostIdentity, Maintenance
from tpuctl import catalog


class NodeState(StrEnum):
    """The states of a google.cloud.tpu Node that the simulated cloud reaches."""

    CREATING = "CREATING"
    READY = "READY"
    RESTARTING = "RESTARTING"
    DELETING = "DELETING"
    REPAIRING = "REPAIRING"
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    STARTING = "STARTING"
    PREEMPTED = "PREEMPTED"
    TERMINATED = "TERMINATED"
    UNKNOWN = "UNKNOWN"


class Health(StrEnum):
    """The values of Node.Health; the API has no value 2."""

    HEALTH_UNSPECIFIED = "HEALTH_UNSPECIFIED"
    HEALTHY = "HEALTHY"
    TIMEOUT = "TIMEOUT"
    UNHEALTHY_TENSORFLOW = "UNHEALTHY_TENSORFLOW"
    UNHEALTHY_MAINTENANCE = "UNHEALTHY_MAINTENANCE"


class NodeEvent(StrEnum):
    """The events of a node's state machine."""

    BOOT = "boot"
    FAIL_TO_BOOT = "fail to boot"
    STOP = "stop"
    STOPPED = "stopped"
    START = "start"
    UPDATE = "update"
    PREEMPT = "preempt"
    EXPIRE = "expire"
    RESTART = "restart"
    REPAIR = "repair"
    DELETE = "delete"


_GOING = {NodeEvent.DELETE: NodeState.DELETING}
_MORTAL = {
    NodeEvent.PREEMPT: NodeState.PREEMPTED,
    NodeEvent.EXPIRE: NodeState.TERMINATED,
    **_GOING,
}
_COMING_BACK = {
    NodeEvent.BOOT: NodeState.READY,
    NodeEvent.FAIL_TO_BOOT: NodeState.UNKNOWN,
    **_MORTAL,
}

NODE_TRANSITIONS: Mapping[NodeState, Mapping[NodeEvent, NodeState]] = {
    NodeState.CREATING: {NodeEvent.BOOT: NodeState.READY, **_GOING},
    NodeState.READY: {
        NodeEvent.BOOT: NodeState.READY,  # the workers came back with a restarted localsim
        NodeEvent.UPDATE: NodeState.READY,
        NodeEvent.STOP: NodeState.STOPPING,
        NodeEvent.RESTART: NodeState.RESTARTING,
        NodeEvent.REPAIR: NodeState.REPAIRING,
        **_MORTAL,
    },
    NodeState.RESTARTING: _COMING_BACK,
    NodeState.REPAIRING: _COMING_BACK,
    NodeState.STOPPING: {NodeEvent.STOPPED: NodeState.STOPPED, **_GOING},
    NodeState.STOPPED: {NodeEvent.START: NodeState.STARTING, **_GOING},
    NodeState.STARTING: {
        NodeEvent.BOOT: NodeState.READY,
        NodeEvent.FAIL_TO_BOOT: NodeState.STOPPED,
        **_GOING,
    },
    NodeState.PREEMPTED: _GOING,
    NodeState.TERMINATED: _GOING,
    NodeState.UNKNOWN: _GOING,
    NodeState.DELETING: {},
}


@dataclass(frozen=True, slots=True)
class AcceleratorConfig:
    """The other spelling of an accelerator type: its generation's enum name and a topology."""

    type: str
    topology: str


@dataclass(frozen=True, slots=True)
class Scheduling:
    """How the capacity of a node is obtained."""

    preemptible: bool = False
    reserved: bool = False
    spot: bool = False
    provisioning_model: str = ""
    """STANDARD, SPOT or RESERVATION_BOUND; only REST has it."""
    reservation_name: str = ""
    termination_time_s: float | None = None

    @property
    def can_be_preempted(self) -> bool:
        """Whether the service may take the node away."""
        return self.preemptible or self.spot


@dataclass(frozen=True, slots=True)
class Network:
    """One network interface of every worker."""

    network: str = ""
    subnetwork: str = ""
    enable_external_ips: bool = False
    can_ip_forward: bool = False
    queue_count: int = 0


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The service account that programs on the workers act as."""

    email: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DataDisk:
    """A disk to attach; `mode` as the API spells it."""

    source: str
    mode: str
    worker_ids: tuple[str, ...] = ()
    """Workers it is attached to; none means all. Only REST has it."""


@dataclass(frozen=True, slots=True)
class BootDisk:
    """How the workers' boot disks are encrypted."""

    kms_key_name: str = ""
    enable_confidential_compute: bool = False


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something wrong that the service noticed on one worker."""

    create_time_s: float
    symptom_type: str
    details: str
    worker_id: str


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """The fields that a client asks for.

    In an accepted spec the accelerator type stands in both spellings.
    """

    accelerator_type: str
    runtime_version: str
    accelerator_config: AcceleratorConfig | None = None
    description: str = ""
    cidr_block: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    scheduling: Scheduling = Scheduling()
    network: Network | None = None
    networks: tuple[Network, ...] = ()
    service_account: ServiceAccount | None = None
    data_disks: tuple[DataDisk, ...] = ()
    enable_secure_boot: bool = False
    autocheckpoint_enabled: bool = False
    boot_disk: BootDisk | None = None
    rest_only: Mapping[str, Any] = field(default_factory=dict)
    """Fields that only REST has and nothing acts on, as JSON: kept and shown there."""

    @property
    def kind(self) -> catalog.AcceleratorType:
        """The accelerator type in the catalog; raises catalog.UnknownError for an unchecked one."""
        return catalog.accelerator_type(self.accelerator_type)


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """An UpdateNode that runs: its operation, and the spec that the node gets at its end."""

    operation: str
    spec: NodeSpec


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    """One node.

    Every change makes a new object, so the object itself is the version.
    """

    name: str
    id: int
    spec: NodeSpec
    state: NodeState
    create_time_s: float
    addresses: tuple[str, ...]
    identities: tuple[HostIdentity, ...] = ()
    queued_resource: str = ""
    has_capacity: bool = False
    operation: str = ""
    """The operation that ends when the node's present change does, or nothing."""
    health: Health = Health.HEALTH_UNSPECIFIED
    health_description: str = ""
    symptoms: tuple[Symptom, ...] = ()
    external_addresses: tuple[str, ...] = ()
    """One per worker, or none at all."""
    multislice: bool = False
    maintenance: Maintenance | None = None
    told: tuple[tuple[GuestAttributesEntry, ...], ...] = ()
    """What each worker itself has PUT, by worker."""
    update: PendingUpdate | None = None
    noticed: tuple[tuple[int, str], ...] = ()
    """While the health is TIMEOUT: worker and fault that the service has noticed."""
    killed: tuple[int, ...] = ()
    """Workers that have lost their power, until the next boot."""

    def allows(self, event: NodeEvent) -> bool:
        """Whether its state allows the event."""
        return event in NODE_TRANSITIONS[self.state]

    def next_state(self, event: NodeEvent) -> NodeState:
        """The state after the event; raises CloudError when its state does not allow it."""
        return next_state(NODE_TRANSITIONS, self.name, self.state, event)

    @property
    def parent(self) -> str:
        """The full name of its zone, `projects/P/locations/Z`."""
        return self.name.partition("/nodes/")[0]

    @property
    def zone(self) -> str:
        """The id of its zone."""
        return self.name.split("/")[3]

    @property
    def node_id(self) -> str:
        """The last part of its name."""
        return self.name.rpartition("/")[2]

    @property
    def accelerator_type(self) -> str:
        """Its accelerator type, such as `v5litepod-16`."""
        return self.spec.accelerator_type

    @property
    def runtime_version(self) -> str:
        """Its runtime version, such as `v2-alpha-tpuv5-lite`."""
        return self.spec.runtime_version

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata that its workers' metadata servers serve."""
        return self.spec.metadata

    @property
    def spot(self) -> bool:
        """Whether the service may preempt it."""
        return self.spec.scheduling.can_be_preempted
