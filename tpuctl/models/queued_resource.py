"""A queued resource: a request that becomes a node when there is capacity."""

from dataclasses import dataclass
from enum import StrEnum

from tpuctl.models.node import NodeSpec


class QueuedResourceState(StrEnum):
    """The states the API has; one it may add later is kept as the string it came as."""

    CREATING = "CREATING"
    ACCEPTED = "ACCEPTED"
    PROVISIONING = "PROVISIONING"
    FAILED = "FAILED"
    DELETING = "DELETING"
    ACTIVE = "ACTIVE"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    WAITING_FOR_RESOURCES = "WAITING_FOR_RESOURCES"


ENDED_STATES = frozenset({QueuedResourceState.FAILED, QueuedResourceState.SUSPENDED})
"""Such a request never becomes ACTIVE by itself, and holds quota until it is deleted."""


@dataclass(frozen=True, slots=True)
class QueuedResourceSpec:
    """What the user asks for; the node gets the same name unless told otherwise."""

    name: str
    node: NodeSpec


@dataclass(frozen=True, slots=True)
class QueuedResource:
    """A request as the API describes it."""

    name: str
    zone: str
    state: str
    initiator: str
    node_names: tuple[str, ...]
    accelerator_type: str
    runtime_version: str
    provisioning: str
    created_s: float
    failure: str | None = None
