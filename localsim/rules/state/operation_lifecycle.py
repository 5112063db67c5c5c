"""Begin and end long-running operations, and find the operation of a repeated request."""

import hashlib
import json
from dataclasses import replace
from typing import Any

from localsim.rules.model.cloud_errors import Code, Failure, invalid
from localsim.rules.model.nodes import Health, Node
from localsim.rules.model.operations import Operation, Verb, operation_name
from localsim.rules.model.queued_resources import QueuedResource
from localsim.rules.model.records import encode
from localsim.rules.state.state import State


def begin(
    state: State,
    target: str,
    verb: Verb,
    now_s: float,
    *,
    request_id: str = "",
    body: Any = None,
) -> Operation:
    """Begin an operation on the resource `target`; `body` is what `find_repeated` compares."""
    parent = "/".join(target.split("/")[:4])
    operation = Operation(
        operation_name(parent, now_s, state.random(target)),
        target,
        verb,
        create_time_s=now_s,
        request_id=request_id,
        request_digest=_digest(body) if request_id else "",
        api_version=state.api_version,
    )
    return state.operations.put(operation)


def find_repeated(
    state: State, target: str, verb: Verb, request_id: str, body: Any = None
) -> Operation | None:
    """The operation that the same request, sent before, has begun, or None.

    Raises INVALID_ARGUMENT when the id came with another body for the same target.
    """
    if not request_id:
        return None
    repeated = state.operations.repeated(target, verb, request_id)
    if repeated is not None and repeated.request_digest != _digest(body):
        raise invalid(f"The request id '{request_id}' was used for another request.")
    return repeated


def succeed(
    state: State, name: str, now_s: float, result: Node | QueuedResource | None = None
) -> None:
    """End an operation with its result; a deletion has none.

    The node of a creation has no health yet, as in a recording of Google's answers
    (k8s-config-connector, mockgcp/mocktpu).
    """
    operation = state.operations.find(name)
    if operation is not None:
        if operation.verb == Verb.CREATE and isinstance(result, Node):
            result = replace(result, health=Health.HEALTH_UNSPECIFIED)
        state.operations.put(
            replace(
                operation,
                end_time_s=now_s,
                node=result if isinstance(result, Node) else None,
                queued_resource=result if isinstance(result, QueuedResource) else None,
            )
        )


def fail(state: State, name: str, now_s: float, code: Code, message: str) -> None:
    """End an operation with an error."""
    operation = state.operations.find(name)
    if operation is not None:
        state.operations.put(replace(operation, end_time_s=now_s, failure=Failure(code, message)))


def fail_all_of(state: State, node: Node, now_s: float, code: Code, message: str) -> None:
    """End the operations under way for a node with an error: its change of state, its update."""
    fail(state, node.operation, now_s, code, message)
    if node.update is not None:
        fail(state, node.update.operation, now_s, code, message)


def record_cancellation(state: State, operation: Operation) -> Operation:
    """Write the client's wish into the operation's metadata."""
    return state.operations.put(
        replace(operation, cancel_requested=True, status_detail="Cancellation was requested.")
    )


def _digest(body: Any) -> str:
    # Maps of protobuf have no order: the same request can bring them in another one.
    sorted_body = json.dumps(json.loads(encode({"content": body})), sort_keys=True)
    return hashlib.sha256(sorted_body.encode()).hexdigest()[:16]
