"""A node: what was asked for, what became of it, and the states it can be in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class NodeState(StrEnum):
    """The states of google.cloud.tpu that the simulated cloud reaches."""

    CREATING = "CREATING"
    READY = "READY"
    DELETING = "DELETING"
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    STARTING = "STARTING"
    PREEMPTED = "PREEMPTED"


class NodeEvent(StrEnum):
    """What can happen to a node."""

    BOOT = "boot"
    FAIL_TO_BOOT = "fail to boot"
    STOP = "stop"
    STOPPED = "stopped"
    START = "start"
    UPDATE = "update"
    PREEMPT = "preempt"
    DELETE = "delete"


_GOING = {NodeEvent.DELETE: NodeState.DELETING}

NODE_TRANSITIONS: Mapping[NodeState, Mapping[NodeEvent, NodeState]] = {
    NodeState.CREATING: {NodeEvent.BOOT: NodeState.READY, **_GOING},
    NodeState.READY: {
        NodeEvent.BOOT: NodeState.READY,  # the workers came back with a restarted localsim
        NodeEvent.UPDATE: NodeState.READY,
        NodeEvent.STOP: NodeState.STOPPING,
        NodeEvent.PREEMPT: NodeState.PREEMPTED,
        **_GOING,
    },
    NodeState.STOPPING: {NodeEvent.STOPPED: NodeState.STOPPED, **_GOING},
    NodeState.STOPPED: {NodeEvent.START: NodeState.STARTING, **_GOING},
    NodeState.STARTING: {
        NodeEvent.BOOT: NodeState.READY,
        NodeEvent.FAIL_TO_BOOT: NodeState.STOPPED,
        **_GOING,
    },
    NodeState.PREEMPTED: _GOING,
    NodeState.DELETING: {},
}


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """How a booted worker makes itself known: `host_key` is a line as in known_hosts."""

    hostname: str
    host_key: str


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
    """Who the programs on the workers are."""

    email: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DataDisk:
    """A disk to attach; `mode` as the API spells it."""

    source: str
    mode: str


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """What a client asks for; once accepted, the accelerator type stands in both spellings."""

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


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    """One node; every change makes a new object, so the object itself is the version."""

    name: str
    id: int
    spec: NodeSpec
    state: NodeState
    create_time_s: float
    addresses: tuple[str, ...]
    identities: tuple[WorkerIdentity, ...] = ()
    queued_resource: str = ""
    has_capacity: bool = False
    operation: str = ""
    """The operation that ends when the node's present change does, or nothing."""

    @property
    def zone(self) -> str:
        """Where it is."""
        return self.name.split("/")[3]

    @property
    def node_id(self) -> str:
        """The last part of its name."""
        return self.name.rpartition("/")[2]

    @property
    def accelerator_type(self) -> str:
        """`v5litepod-16`."""
        return self.spec.accelerator_type

    @property
    def runtime_version(self) -> str:
        """`v2-alpha-tpuv5-lite`."""
        return self.spec.runtime_version

    @property
    def metadata(self) -> Mapping[str, str]:
        """What its workers find in their metadata server."""
        return self.spec.metadata

    @property
    def spot(self) -> bool:
        """Whether the service may take it away."""
        return self.spec.scheduling.can_be_preempted
