"""What happens to a queued resource, and what happens to it because of its nodes."""

from dataclasses import replace
from typing import Any

from localsim.cloud import node_life, operation_life
from localsim.cloud.agenda import Action
from localsim.cloud.errors import Code, Failure, already_exists
from localsim.cloud.nodes import Node, NodeSpec, NodeState
from localsim.cloud.operations import Operation, Verb
from localsim.cloud.queued_resources import (
    REQUEST_TRANSITIONS,
    Initiator,
    QueuedResource,
    QueuedResourceSpec,
    RequestEvent,
    RequestState,
    Tier,
)
from localsim.cloud.state import State
from localsim.cloud.transitions import follow


def create(
    state: State, name: str, spec: QueuedResourceSpec, request_id: str, now_s: float
) -> Operation:
    """File a request; the operation ends when it is accepted, long before there is a node."""
    repeated = operation_life.repeated(state, name, Verb.CREATE, request_id)
    if repeated is not None:
        return repeated
    if name in state.requests:
        raise already_exists(name)
    for wanted in spec.nodes:
        if wanted.name in state.nodes:
            raise already_exists(wanted.name)
    operation = operation_life.begin(state, name, Verb.CREATE, now_s, request_id=request_id)
    request = QueuedResource(
        name=name,
        spec=spec,
        state=RequestState.CREATING,
        initiator=Initiator.USER,
        create_time_s=now_s,
        operation=operation.name,
    )
    state.requests.put(request)
    state.agenda.add(now_s, Action.ACCEPT_REQUEST, name)
    return operation


def accept(state: State, name: str, now_s: float) -> None:
    """The request is filed: its operation ends."""
    operation = state.requests.get(name).operation
    request = _move(state, name, RequestEvent.ACCEPT, operation="")
    operation_life.succeed(state, operation, now_s, request)
    state.agenda.add(now_s + state.scenario.acceptance_delay_s, Action.ADMIT_REQUEST, name)


def admit(state: State, name: str, now_s: float) -> None:
    """Provision when there is capacity, wait when there is none."""
    request = state.requests.get(name)
    kinds = [wanted.spec.accelerator_type for wanted in request.spec.nodes]
    if not all(state.has_capacity(request.zone, kind) for kind in kinds):
        if request.state != RequestState.WAITING_FOR_RESOURCES:
            _move(state, name, RequestEvent.WAIT)
        return
    taken = [wanted.name for wanted in request.spec.nodes if wanted.name in state.nodes]
    if taken:
        failure = Failure(Code.ALREADY_EXISTS, already_exists(taken[0]).message)
        _move(state, name, RequestEvent.FAIL, failure=failure)
        return
    _move(state, name, RequestEvent.PROVISION)
    for wanted in request.spec.nodes:
        spec = _with_tier(wanted.spec, request.spec)
        node_life.create_owned(state, wanted.name, spec, name, now_s)


def admit_waiting(state: State, now_s: float) -> None:
    """Offer freed capacity to the requests that wait, the oldest first."""
    waiting = [each for each in state.requests if each.state == RequestState.WAITING_FOR_RESOURCES]
    for request in sorted(waiting, key=lambda each: each.create_time_s):
        admit(state, request.name, now_s)


def node_is_ready(state: State, node: Node) -> None:
    """ACTIVE when every node of the owner is up."""
    request = state.requests.find(node.queued_resource)
    if request is None or request.state != RequestState.PROVISIONING:
        return
    nodes = [state.nodes.find(wanted.name) for wanted in request.spec.nodes]
    if all(each is not None and each.state == NodeState.READY for each in nodes):
        _move(state, request.name, RequestEvent.ACTIVATE)


def node_is_lost(state: State, node: Node, initiator: Initiator, now_s: float) -> None:
    """Suspend the owner of a node that was preempted or deleted."""
    request = state.requests.find(node.queued_resource)
    if request is None:
        return
    if request.state == RequestState.ACTIVE:
        _move(state, request.name, RequestEvent.LOSE_NODE, initiator=initiator)
        due_s = now_s + state.scenario.suspension_delay_s
        state.agenda.add(due_s, Action.SUSPEND_REQUEST, request.name)
    else:
        failure = Failure(Code.CANCELLED, f"'{node.name}' was deleted while it was provisioned.")
        node_failed(state, node, initiator, failure)


def node_failed(state: State, node: Node, initiator: Initiator, failure: Failure) -> None:
    """Fail the owner of a node that is gone before all of the owner's were READY."""
    request = state.requests.find(node.queued_resource)
    if request is not None and request.state == RequestState.PROVISIONING:
        _move(state, request.name, RequestEvent.FAIL, initiator=initiator, failure=failure)


def suspend(state: State, name: str, _now_s: float) -> None:
    """SUSPENDED: it does not come back by itself, and holds quota until it is deleted."""
    _move(state, name, RequestEvent.SUSPEND, initiator=state.requests.get(name).initiator)


def delete(state: State, name: str, request_id: str, now_s: float, *, force: bool) -> Operation:
    """Begin to delete a request, its nodes first; ACTIVE needs force."""
    repeated = operation_life.repeated(state, name, Verb.DELETE, request_id)
    if repeated is not None:
        return repeated
    request = state.requests.get(name)
    event = RequestEvent.FORCE_DELETE if force else RequestEvent.DELETE
    follow(REQUEST_TRANSITIONS, name, request.state, event)
    operation = operation_life.begin(state, name, Verb.DELETE, now_s, request_id=request_id)
    state.agenda.cancel(name)
    _move(state, name, event, operation=operation.name, initiator=Initiator.USER)
    for node in _nodes(state, name):
        if node.state != NodeState.DELETING:
            node_life.delete(state, node.name, now_s)
    state.agenda.add(now_s + state.scenario.deletion_delay_s, Action.REMOVE_REQUEST, name)
    return operation


def removed(state: State, name: str, now_s: float) -> None:
    """The request is gone."""
    request = state.requests.get(name)
    state.requests.remove(name)
    operation_life.succeed(state, request.operation, now_s)


def _nodes(state: State, owner: str) -> list[Node]:
    return [node for node in state.nodes if node.queued_resource == owner]


def _move(state: State, name: str, event: RequestEvent, **changes: Any) -> QueuedResource:
    request = state.requests.get(name)
    following = follow(REQUEST_TRANSITIONS, name, request.state, event)
    who = {"initiator": Initiator.SERVICE, **changes}
    return state.requests.put(replace(request, state=following, **who))


def _with_tier(spec: NodeSpec, request: QueuedResourceSpec) -> NodeSpec:
    scheduling = replace(
        spec.scheduling, spot=request.tier == Tier.SPOT, reserved=bool(request.reservation_name)
    )
    return replace(spec, scheduling=scheduling)
