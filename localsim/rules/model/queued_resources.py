"""A queued resource: a request that becomes nodes when there is capacity, and its states."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from localsim.rules.model.cloud_errors import Failure
from localsim.rules.model.nodes import NodeSpec
from localsim.rules.model.transitions import next_state


class RequestState(StrEnum):
    """The values of QueuedResourceState.State."""

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
    """The events of a queued resource's state machine."""

    ACCEPT = "accept"
    WAIT = "wait"
    PROVISION = "provision"
    ACTIVATE = "activate"
    FAIL = "fail"
    LOSE_NODE = "lose node"
    SUSPEND = "suspend"
    RESET = "reset"
    DELETE = "delete"
    FORCE_DELETE = "delete with force"


class Initiator(StrEnum):
    """The values of QueuedResourceState.StateInitiator: who caused the state."""

    USER = "USER"
    SERVICE = "SERVICE"


class Tier(StrEnum):
    """The member of the request's tier that is set."""

    ON_DEMAND = ""
    SPOT = "spot"
    GUARANTEED = "guaranteed"
    BEST_EFFORT = "best_effort"


_GOING = {
    RequestEvent.DELETE: RequestState.DELETING,
    RequestEvent.FORCE_DELETE: RequestState.DELETING,
}
_PROVISIONING = {
    RequestEvent.PROVISION: RequestState.PROVISIONING,
    RequestEvent.FAIL: RequestState.FAILED,
}

REQUEST_TRANSITIONS: Mapping[RequestState, Mapping[RequestEvent, RequestState]] = {
    RequestState.CREATING: {
        RequestEvent.ACCEPT: RequestState.ACCEPTED,
        RequestEvent.FAIL: RequestState.FAILED,
    },
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
        RequestEvent.RESET: RequestState.ACCEPTED,
        RequestEvent.FORCE_DELETE: RequestState.DELETING,
    },
    RequestState.SUSPENDING: {
        RequestEvent.SUSPEND: RequestState.SUSPENDED,
        RequestEvent.FORCE_DELETE: RequestState.DELETING,
    },
    RequestState.SUSPENDED: {RequestEvent.RESET: RequestState.ACCEPTED, **_GOING},
    RequestState.FAILED: _GOING,
    RequestState.DELETING: {},
}


@dataclass(frozen=True, slots=True)
class MultisliceParams:
    """Several nodes of one request: `<prefix>-0` and so on; no prefix means the request's id."""

    node_count: int
    node_id_prefix: str = ""
    workload_type: str = ""
    """THROUGHPUT_OPTIMIZED or AVAILABILITY_OPTIMIZED; only v2alpha1 has it. Nothing acts on it."""


@dataclass(frozen=True, slots=True)
class QueueingPolicy:
    """When a request may be provisioned; `form` is the API's field that was set."""

    form: str
    after_s: float | None = None
    until_s: float | None = None
    duration_s: float | None = None
    """As asked, where the form is a duration; `after_s` or `until_s` is the moment it means."""


@dataclass(frozen=True, slots=True)
class RequestedNode:
    """One node that a request asks for; `parent` is the zone's full name."""

    parent: str
    node_id: str
    spec: NodeSpec
    multislice: MultisliceParams | None = None
    """As asked; an accepted request has one requested node for each of them instead."""

    @property
    def name(self) -> str:
        """The node's full name."""
        return f"{self.parent}/nodes/{self.node_id}"


@dataclass(frozen=True, slots=True)
class QueuedResourceSpec:
    """The fields that a client asks for."""

    nodes: tuple[RequestedNode, ...]
    tier: Tier = Tier.ON_DEMAND
    min_duration_s: float | None = None
    reservation_name: str = ""
    queueing: QueueingPolicy | None = None
    reserved: bool = False
    """Guaranteed.reserved; only v2alpha1 has it."""
    provisioning_model: str = ""
    """STANDARD, SPOT, RESERVATION_BOUND or FLEX_START; only REST has it."""
    max_run_duration_s: float | None = None
    """How long its nodes live once they are ACTIVE; only REST has it."""
    rest_only: Mapping[str, Any] = field(default_factory=dict)
    """Fields that only REST has and nothing acts on, as JSON: kept and shown there."""

    @property
    def is_reserved(self) -> bool:
        """Whether its capacity comes from a reservation."""
        bound = self.provisioning_model == "RESERVATION_BOUND"
        return self.reserved or bool(self.reservation_name) or bound

    def with_tier(self, spec: NodeSpec) -> NodeSpec:
        """The spec of a node of the request with the request's tier in its scheduling.

        A node that asks to be preemptible is so, unless the request is for spot.
        """
        is_spot = self.tier is Tier.SPOT or self.provisioning_model == "SPOT"
        asks = self.tier is Tier.BEST_EFFORT or spec.scheduling.preemptible
        return replace(
            spec,
            scheduling=replace(
                spec.scheduling,
                spot=is_spot,
                preemptible=asks and not is_spot,
                reserved=self.is_reserved,
                reservation_name=self.reservation_name,
            ),
        )


@dataclass(frozen=True, slots=True)
class QueuedResource:
    """A queued resource with its state."""

    name: str
    spec: QueuedResourceSpec
    state: RequestState
    initiator: Initiator
    create_time_s: float
    failure: Failure | None = None
    operation: str = ""
    """The operation that ends when the request's present change does, or nothing."""
    holds_quota: bool = False
    """From its provisioning until it is gone."""

    def next_state(self, event: RequestEvent) -> RequestState:
        """The state after the event; raises CloudError when its state does not allow it."""
        return next_state(REQUEST_TRANSITIONS, self.name, self.state, event)

    @property
    def zone(self) -> str:
        """The id of its zone."""
        return self.name.split("/")[3]
