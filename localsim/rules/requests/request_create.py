"""What a user does to a queued resource: create, delete and reset it."""

from localsim.rules.db.agenda import Action
from localsim.rules.model.cloud_errors import Code, Failure, already_exists, conflict, with_error_id
from localsim.rules.model.nodes import NodeState
from localsim.rules.model.operations import Operation, Verb
from localsim.rules.model.queued_resources import (
    Initiator,
    QueuedResource,
    QueuedResourceSpec,
    RequestEvent,
    RequestState,
)
from localsim.rules.nodes import node_lifecycle
from localsim.rules.requests import request_validation
from localsim.rules.requests.request_transitions import fail, move
from localsim.rules.requests.request_validation import FLEX_START
from localsim.rules.state import operation_lifecycle
from localsim.rules.state.state import State
from localsim.rules.supply import reservations
from tpuctl import catalog


def create(
    state: State, name: str, spec: QueuedResourceSpec, request_id: str, now_s: float
) -> Operation:
    """Begin a request; its operation ends when it is accepted, before there are nodes."""
    repeated = operation_lifecycle.find_repeated(state, name, Verb.CREATE, request_id, spec)
    if repeated is not None:
        return repeated
    wanted = request_validation.checked_spec(name, spec, now_s)
    if name in state.requests:
        raise already_exists(name)
    for node in wanted.nodes:
        if node.name in state.nodes:
            raise already_exists(node.name)
    (parent, tiered), *_ = [(node.parent, wanted.with_tier(node.spec)) for node in wanted.nodes]
    reservations.check(state, parent, tiered, now_s)
    operation = operation_lifecycle.begin(
        state, name, Verb.CREATE, now_s, request_id=request_id, body=spec
    )
    state.requests.put(
        QueuedResource(
            name=name,
            spec=wanted,
            state=RequestState.CREATING,
            initiator=Initiator.USER,
            create_time_s=now_s,
            operation=operation.name,
        )
    )
    state.agenda.add(now_s, Action.ACCEPT_REQUEST, name)
    return operation


def accept(state: State, name: str, now_s: float) -> None:
    """Accept a request and end its operation; it fails where flex-start is not offered."""
    request = state.requests.get(name)
    refusal = _refusal(request)
    if refusal is not None:
        operation_lifecycle.fail(state, request.operation, now_s, refusal.code, refusal.message)
        fail(state, request, refusal, now_s)
        return
    accepted = move(state, name, RequestEvent.ACCEPT, operation="")
    operation_lifecycle.succeed(state, request.operation, now_s, accepted)
    admission_s = now_s + state.scenario.acceptance_delay_s
    queueing = request.spec.queueing
    if queueing is not None and queueing.after_s is not None:
        admission_s = max(admission_s, queueing.after_s)
    state.agenda.add(admission_s, Action.ADMIT_REQUEST, name)
    if queueing is not None and queueing.until_s is not None:
        state.agenda.add(queueing.until_s, Action.EXPIRE_REQUEST, name)


def delete(state: State, name: str, request_id: str, now_s: float, *, force: bool) -> Operation:
    """Begin to delete a request and its nodes; one that has nodes needs `force`.

    FAILED and SUSPENDED requests never need it; PROVISIONING ones are refused even so.
    """
    repeated = operation_lifecycle.find_repeated(state, name, Verb.DELETE, request_id)
    if repeated is not None:
        return repeated
    request = state.requests.get(name)
    nodes = state.nodes_by_owner[name]
    event = RequestEvent.FORCE_DELETE if force or not nodes else RequestEvent.DELETE
    request.next_state(event)
    operation = operation_lifecycle.begin(state, name, Verb.DELETE, now_s, request_id=request_id)
    cancelled = f"'{name}' was deleted."
    operation_lifecycle.fail(state, request.operation, now_s, Code.CANCELLED, cancelled)
    state.agenda.cancel(name)
    move(state, name, event, operation=operation.name, initiator=Initiator.USER, failure=None)
    _delete_nodes(state, name, now_s)
    state.agenda.add(now_s + state.scenario.deletion_delay_s, Action.REMOVE_REQUEST, name)
    return operation


def reset(state: State, name: str, now_s: float) -> Operation:
    """Delete the nodes of a request and make it ACCEPTED again.

    The operation ends when the request is admitted once more, as that of its creation does.
    """
    request = state.requests.get(name)
    if request.operation:
        raise conflict(f"'{name}' is being changed by '{request.operation}'.")
    request.next_state(RequestEvent.RESET)
    operation = operation_lifecycle.begin(state, name, Verb.RESET, now_s)
    state.agenda.cancel(name)
    move(state, name, RequestEvent.RESET, operation=operation.name, initiator=Initiator.USER)
    _delete_nodes(state, name, now_s)
    state.agenda.add(now_s + state.scenario.deletion_delay_s, Action.ADMIT_REQUEST, name)
    return operation


def finish_delete(state: State, name: str, now_s: float) -> None:
    """Remove a request; its operation succeeds."""
    request = state.requests.get(name)
    state.requests.remove(name)
    operation_lifecycle.succeed(state, request.operation, now_s)


def _delete_nodes(state: State, owner: str, now_s: float) -> None:
    for node in state.nodes_by_owner[owner]:
        if node.state != NodeState.DELETING:
            node_lifecycle.delete(state, node.name, now_s)


def _refusal(request: QueuedResource) -> Failure | None:
    """The error with which the service refuses an accepted request, or None."""
    kind, asks = request.spec.nodes[0].spec.kind, request.spec.provisioning_model == FLEX_START
    if not asks or catalog.generation(kind.generation).flex_start:
        return None
    sentence = f"Flex-start is not offered for '{kind.name}' in zone {request.zone}."
    return Failure(Code.INVALID_ARGUMENT, with_error_id(sentence))
