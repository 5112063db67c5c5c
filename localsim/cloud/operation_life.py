"""Beginning and ending long-running operations."""

from dataclasses import replace

from localsim.cloud.errors import Code, Failure
from localsim.cloud.nodes import Node
from localsim.cloud.operations import Operation, Verb, operation_name
from localsim.cloud.queued_resources import QueuedResource
from localsim.cloud.state import State


def begin(
    state: State, target: str, verb: Verb, now_s: float, *, request_id: str = ""
) -> Operation:
    """A new operation on the resource named `target`."""
    parent = "/".join(target.split("/")[:4])
    name = operation_name(parent, now_s, state.random(target))
    operation = Operation(name, target, verb, create_time_s=now_s, request_id=request_id)
    return state.operations.put(operation)


def repeated(state: State, target: str, verb: Verb, request_id: str) -> Operation | None:
    """The operation that the same request, sent before, has begun."""
    if not request_id:
        return None
    asked = (target, verb, request_id)
    return next(
        (each for each in state.operations if (each.target, each.verb, each.request_id) == asked),
        None,
    )


def succeed(
    state: State, name: str, now_s: float, result: Node | QueuedResource | None = None
) -> None:
    """End an operation; a deletion has no result."""
    operation = state.operations.find(name)
    if operation is not None:
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
