"""A node (one TPU slice) and its workers (its hosts)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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


LOST_STATES = frozenset({NodeState.PREEMPTED, NodeState.TERMINATED})
"""A node in one of these never comes back: delete it."""


class Provisioning(StrEnum):
    """How capacity is obtained, and so how it is priced."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"


@dataclass(frozen=True, slots=True)
class Worker:
    """One host of a slice; `worker_id` is its index in the node's network endpoints."""

    worker_id: int
    ip_address: str
    external_ip: str | None = None


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """What the user asks for."""

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
