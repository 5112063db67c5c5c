"""A queued resource: a request that becomes nodes when there is capacity, and its states."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from localsim.cloud.errors import Failure
from localsim.cloud.nodes import NodeSpec


class RequestState(StrEnum):
    """QueuedResourceState.State."""

    CREATING = "CREATING"
    ACCEPTED = "ACCEPTED"
    PROVISIONING = "PROVISIONING"
    FAILED = "FAILED"
    DELETING = "DELETING"
    ACTIVE = "ACTIVE"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    WAITING_FOR_RESOURCES = "WAITING_FOR_RESOURCES"


class RequestEvent(StrEnum):
    """What can happen to a queued resource."""

    ACCEPT = "accept"
    WAIT = "wait"
    PROVISION = "provision"
    ACTIVATE = "activate"
    FAIL = "fail"
    LOSE_NODE = "lose node"
    SUSPEND = "suspend"
    DELETE = "delete"
    FORCE_DELETE = "delete with force"


class Initiator(StrEnum):
    """QueuedResourceState.StateInitiator: who caused the state."""

    USER = "USER"
    SERVICE = "SERVICE"


class Tier(StrEnum):
    """Which member of the request's tier is set."""

    ON_DEMAND = ""
    SPOT = "spot"
    GUARANTEED = "guaranteed"


_GOING = {
    RequestEvent.DELETE: RequestState.DELETING,
    RequestEvent.FORCE_DELETE: RequestState.DELETING,
}
_PROVISIONING = {
    RequestEvent.PROVISION: RequestState.PROVISIONING,
    RequestEvent.FAIL: RequestState.FAILED,
}

REQUEST_TRANSITIONS: Mapping[RequestState, Mapping[RequestEvent, RequestState]] = {
    RequestState.CREATING: {RequestEvent.ACCEPT: RequestState.ACCEPTED},
    RequestState.ACCEPTED: {
        RequestEvent.WAIT: RequestState.WAITING_FOR_RESOURCES,
        **_PROVISIONING,
        **_GOING,
    },
    RequestState.WAITING_FOR_RESOURCES: {**_PROVISIONING, **_GOING},
    RequestState.PROVISIONING: {
        RequestEvent.ACTIVATE: RequestState.ACTIVE,
        RequestEvent.FAIL: RequestState.FAILED,
    },
    RequestState.ACTIVE: {
        RequestEvent.LOSE_NODE: RequestState.SUSPENDING,
        RequestEvent.FORCE_DELETE: RequestState.DELETING,
    },
    RequestState.SUSPENDING: {RequestEvent.SUSPEND: RequestState.SUSPENDED},
    RequestState.SUSPENDED: _GOING,
    RequestState.FAILED: _GOING,
    RequestState.DELETING: {},
}


@dataclass(frozen=True, slots=True)
class RequestedNode:
    """One node that a request shall become; `parent` is the zone's full name."""

    parent: str
    node_id: str
    spec: NodeSpec

    @property
    def name(self) -> str:
        """The node's full name."""
        return f"{self.parent}/nodes/{self.node_id}"


@dataclass(frozen=True, slots=True)
class QueuedResourceSpec:
    """What a client asks for."""

    nodes: tuple[RequestedNode, ...]
    tier: Tier = Tier.ON_DEMAND
    min_duration_s: float | None = None
    reservation_name: str = ""


@dataclass(frozen=True, slots=True)
class QueuedResource:
    """One request and where it stands."""

    name: str
    spec: QueuedResourceSpec
    state: RequestState
    initiator: Initiator
    create_time_s: float
    failure: Failure | None = None
    operation: str = ""
    """The operation that ends when the request's present change does, or nothing."""

    @property
    def zone(self) -> str:
        """Where it is."""
        return self.name.split("/")[3]
