"""When queued resources get their capacity."""

from collections.abc import Sequence
from dataclasses import replace

from localsim.rules.model.cloud_errors import CloudError, Code, Failure, already_exists
from localsim.rules.model.nodes import NodeSpec
from localsim.rules.model.queued_resources import QueuedResource, RequestEvent, RequestState
from localsim.rules.nodes import node_lifecycle
from localsim.rules.requests.request_transitions import fail, move
from localsim.rules.state import operation_lifecycle
from localsim.rules.state.state import State
from localsim.rules.supply import capacity, networks, quota

WAITING = RequestState.WAITING_FOR_RESOURCES
EXPIRED_MESSAGE = (
    "The request could not be provisioned before the end of the time it was valid for."
)


def admit(state: State, name: str, now_s: float) -> None:
    """Provision all nodes of a request where there is capacity, else let it wait.

    The request fails where the quota does not suffice.
    """
    request = state.requests.get(name)
    operation = request.operation
    if operation:  # of its reset, which ends with this
        request = state.requests.put(replace(request, operation=""))
        operation_lifecycle.succeed(state, operation, now_s, request)
    if not _is_open(request, now_s):
        return
    try:
        granted = _granted(state, request, now_s)
    except CloudError as error:
        fail(state, request, Failure(error.code, error.message), now_s)
        return
    if granted is not None:
        _provision(state, request, granted, now_s)
    elif request.state != WAITING:
        move(state, name, RequestEvent.WAIT)


def admit_waiting(state: State, now_s: float) -> None:
    """Offer free capacity to the waiting requests, the oldest first.

    A request that wants more than there is stays, and does not hold up those behind it.
    """
    refused = set()
    for request in sorted(state.requests_by_state[WAITING], key=lambda each: each.create_time_s):
        wanted = request.spec.nodes[0]
        kind = (wanted.parent, wanted.spec.accelerator_type, request.spec.reservation_name)
        size = (*kind, request.spec.is_reserved, len(request.spec.nodes))
        if size not in refused and _is_open(request, now_s):
            admit(state, request.name, now_s)
            if state.requests.get(request.name).state == WAITING:
                refused.add(size)


def expire(state: State, name: str, now_s: float) -> None:
    """Handle the end of a request's window; the scenario says whether the request fails then."""
    request = state.requests.get(name)
    is_queued = request.state in (RequestState.ACCEPTED, WAITING) and not request.holds_quota
    if is_queued and state.scenario.expired_requests == "fail":
        fail(state, request, Failure(Code.DEADLINE_EXCEEDED, EXPIRED_MESSAGE), now_s)


def _is_open(request: QueuedResource, now_s: float) -> bool:
    """Whether now lies in the request's window; always for one that was provisioned before."""
    window = request.spec.queueing
    if window is None or request.holds_quota:
        return True
    has_begun = window.after_s is None or now_s >= window.after_s
    return has_begun and (window.until_s is None or now_s < window.until_s)


def _granted(state: State, request: QueuedResource, now_s: float) -> tuple[NodeSpec, ...] | None:
    """The specs of all nodes, or None where there is not enough now.

    Raises CloudError where there never will be.
    """
    parent = request.spec.nodes[0].parent
    specs = [request.spec.with_tier(wanted.spec) for wanted in request.spec.nodes]
    granted = capacity.granted_specs(state, parent, specs, now_s)
    if granted is None and request.state == WAITING:
        return None
    if not request.holds_quota:
        quota.require(state, request.zone, specs)
    networks.require_all(state, parent, specs)
    return granted


def _provision(
    state: State, request: QueuedResource, granted: Sequence[NodeSpec], now_s: float
) -> None:
    taken = [wanted.name for wanted in request.spec.nodes if wanted.name in state.nodes]
    if taken:
        failure = Failure(Code.ALREADY_EXISTS, already_exists(taken[0]).message)
        fail(state, request, failure, now_s)
        return
    move(state, request.name, RequestEvent.PROVISION, holds_quota=True)
    multislice = len(granted) > 1
    for wanted, spec in zip(request.spec.nodes, granted, strict=True):
        node_lifecycle.create_owned(
            state, wanted.name, spec, request.name, now_s, multislice=multislice
        )
