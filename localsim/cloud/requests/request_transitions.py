"""How a queued resource goes from one state to the next."""

from dataclasses import replace
from typing import Any

from localsim.cloud.model.cloud_errors import Failure
from localsim.cloud.model.events import DestroySlice
from localsim.cloud.model.nodes import Node, NodeState
from localsim.cloud.model.queued_resources import (
    REQUEST_TRANSITIONS,
    Initiator,
    QueuedResource,
    RequestEvent,
)
from localsim.cloud.model.transitions import next_state
from localsim.cloud.state import operation_lifecycle
from localsim.cloud.state.state import State


def move(state: State, name: str, event: RequestEvent, **changes: Any) -> QueuedResource:
    """Follow the event, by the service unless an initiator is given; raises CloudError."""
    request = state.requests.get(name)
    following = next_state(REQUEST_TRANSITIONS, name, request.state, event)
    who = {"initiator": Initiator.SERVICE, **changes}
    return state.requests.put(replace(request, state=following, **who))


def fail(
    state: State,
    request: QueuedResource,
    failure: Failure,
    now_s: float,
    initiator: Initiator = Initiator.SERVICE,
) -> None:
    """FAILED, and the nodes it had got are taken from it; its quota is not."""
    state.agenda.cancel(request.name)
    for node in state.nodes_by_owner[request.name]:
        if node.state != NodeState.DELETING:
            remove_node(state, node, failure, now_s)
    move(
        state,
        request.name,
        RequestEvent.FAIL,
        operation="",
        failure=failure,
        initiator=initiator,
    )


def remove_node(state: State, node: Node, failure: Failure, now_s: float) -> None:
    """Remove a node at once; whatever ran on it has failed."""
    state.agenda.cancel(node.name)
    operation_lifecycle.fail_all_of(state, node, now_s, failure.code, failure.message)
    state.nodes.remove(node.name)
    state.events.append(DestroySlice(node))
