"""What happens to a queued resource because of its nodes, and because of time."""

from collections.abc import Sequence
from dataclasses import replace

from localsim.rules.db.agenda import Action
from localsim.rules.model.cloud_errors import CloudError, Code, Failure
from localsim.rules.model.nodes import Node, NodeSpec, NodeState
from localsim.rules.model.queued_resources import (
    Initiator,
    QueuedResource,
    RequestEvent,
    RequestState,
)
from localsim.rules.nodes import maintenance, node_lifecycle, node_power
from localsim.rules.requests.request_transitions import fail, move, remove_node
from localsim.rules.state.state import State
from localsim.rules.supply import capacity

LOST_STATES = (NodeState.PREEMPTED, NodeState.TERMINATED, NodeState.UNKNOWN)
_ENDS = {
    Initiator.USER: (Code.CANCELLED, "deleted"),
    Initiator.SERVICE: (Code.ABORTED, "lost"),
}
"""Who ended a node -> what is said of it when its request was not ACTIVE yet."""


def handle_ready_node(state: State, node: Node, now_s: float) -> None:
    """Make the owner ACTIVE when all its nodes are READY, and begin its longest run."""
    request = state.requests.find(node.queued_resource)
    if request is None or request.state != RequestState.PROVISIONING:
        return
    nodes = state.nodes_by_owner[request.name]
    if len(nodes) < len(request.spec.nodes) or any(n.state != NodeState.READY for n in nodes):
        return
    move(state, request.name, RequestEvent.ACTIVATE)
    if request.spec.max_run_duration_s is not None:
        _begin_run(state, nodes, request.name, now_s + request.spec.max_run_duration_s)


def handle_lost_node(state: State, node: Node, initiator: Initiator, now_s: float) -> None:
    """Suspend the owner of a lost node; the service repairs a multislice instead."""
    request = state.requests.find(node.queued_resource)
    if request is None:
        return
    if request.state != RequestState.ACTIVE:
        code, end = _ENDS[initiator]
        failure = Failure(code, f"'{node.name}' was {end} while it was provisioned.")
        _fail_provisioning(state, request, failure, now_s, initiator)
    elif initiator is Initiator.SERVICE and node.multislice:
        due_s = now_s + state.scenario.suspension_delay_s
        state.agenda.add(due_s, Action.REPAIR_REQUEST, request.name)
    else:
        _lose(state, request, initiator, now_s)


def handle_failed_node(
    state: State, node: Node, initiator: Initiator, failure: Failure, now_s: float
) -> None:
    """Fail the owner of a node that is gone before all of the owner's nodes were READY."""
    request = state.requests.find(node.queued_resource)
    if request is None:
        return
    if request.state == RequestState.ACTIVE and node.name not in state.nodes:
        _lose(state, request, initiator, now_s)  # the new node of a repair did not come up
    _fail_provisioning(state, request, failure, now_s, initiator)


def handle_stockout(state: State, node: Node, now_s: float) -> None:
    """Fail a provisioning request whose promised capacity is gone at the last moment."""
    failure = Failure(Code.RESOURCE_EXHAUSTED, capacity.late_stockout_message(node))
    node_lifecycle.give_up(state, node, failure.code, failure.message, now_s)
    handle_failed_node(state, node, Initiator.SERVICE, failure, now_s)


def repair(state: State, name: str, now_s: float) -> None:
    """Recreate the lost nodes of an ACTIVE multislice where there is capacity; restart the others.

    The request stays ACTIVE meanwhile, and its nodes show their own states.
    """
    request = state.requests.get(name)
    if request.state != RequestState.ACTIVE:
        return
    nodes = state.nodes_by_owner[name]
    renewed = [n for n in nodes if n.state in LOST_STATES and _is_renewed(state, n, now_s)]
    if renewed:
        for node in nodes:
            if node.state == NodeState.READY:
                node_power.restart(state, node)


def repair_all(state: State, now_s: float) -> None:
    """Continue the repairs that waited for capacity."""
    for request in state.requests_by_state[RequestState.ACTIVE]:
        is_multislice = len(request.spec.nodes) > 1
        if is_multislice and not state.agenda.has(Action.REPAIR_REQUEST, request.name):
            repair(state, request.name, now_s)


def end_run(state: State, name: str, now_s: float) -> None:
    """Delete the nodes of a request whose longest run is over, and suspend it."""
    request = state.requests.get(name)
    if request.state != RequestState.ACTIVE:
        return
    _lose(state, request, Initiator.SERVICE, now_s)
    for node in state.nodes_by_owner[name]:
        if node.state != NodeState.DELETING:
            node_lifecycle.delete(state, node.name, now_s)
    maintenance.settle_request(state, name, now_s)


def suspend(state: State, name: str, _now_s: float) -> None:
    """Make a request SUSPENDED; it holds its quota until it is deleted."""
    move(state, name, RequestEvent.SUSPEND, initiator=state.requests.get(name).initiator)


def _lose(state: State, request: QueuedResource, initiator: Initiator, now_s: float) -> None:
    move(state, request.name, RequestEvent.LOSE_NODE, initiator=initiator)
    due_s = now_s + state.scenario.suspension_delay_s
    state.agenda.add(due_s, Action.SUSPEND_REQUEST, request.name)


def _fail_provisioning(
    state: State, request: QueuedResource, failure: Failure, now_s: float, initiator: Initiator
) -> None:
    if request.state == RequestState.PROVISIONING:
        fail(state, request, failure, now_s, initiator)


def _begin_run(state: State, nodes: list[Node], owner: str, end_s: float) -> None:
    state.agenda.add(end_s, Action.END_RUN, owner)
    for node in nodes:
        scheduling = replace(node.spec.scheduling, termination_time_s=end_s)
        state.nodes.put(replace(node, spec=replace(node.spec, scheduling=scheduling)))


def _is_renewed(state: State, node: Node, now_s: float) -> bool:
    granted: Sequence[NodeSpec] | None = [node.spec]
    if not node.has_capacity:
        try:
            granted = capacity.granted_specs(state, node.parent, [node.spec], now_s)
        except CloudError:  # its reservation is gone
            granted = None
    if granted is None:
        return False
    remove_node(state, node, Failure(Code.ABORTED, f"'{node.name}' was lost."), now_s)
    node_lifecycle.create_owned(
        state, node.name, granted[0], node.queued_resource, now_s, multislice=True
    )
    return True
