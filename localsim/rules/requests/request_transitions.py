"""The state changes of a queued resource."""

from dataclasses import replace
from typing import Any

from localsim.rules.model.cloud_errors import Failure
from localsim.rules.model.events import DestroySlice
from localsim.rules.model.nodes import Node, NodeState
from localsim.rules.model.queued_resources import Initiator, QueuedResource, RequestEvent
from localsim.rules.state import operation_lifecycle
from localsim.rules.state.state import State


def move(state: State, name: str, event: RequestEvent, **changes: Any) -> QueuedResource:
    """Follow the event, by the service unless `initiator` is given; raises CloudError."""
    request = state.requests.get(name)
    following = request.next_state(event)
    who = {"initiator": Initiator.SERVICE, **changes}
    return state.requests.put(replace(request, state=following, **who))


def fail(
    state: State,
    request: QueuedResource,
    failure: Failure,
    now_s: float,
    initiator: Initiator = Initiator.SERVICE,
) -> None:
    """Make a request FAILED and remove its nodes; it keeps its quota."""
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
    """Remove a node at once; its operations fail."""
    state.agenda.cancel(node.name)
    operation_lifecycle.fail_all_of(state, node, now_s, failure.code, failure.message)
    state.nodes.remove(node.name)
    state.events.append(DestroySlice(node))
