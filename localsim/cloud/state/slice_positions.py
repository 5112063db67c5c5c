"""The place of a node among the slices of one request, as its workers need to know it."""

from dataclasses import dataclass

from localsim.cloud.model.nodes import Node
from localsim.cloud.state.state import State


@dataclass(frozen=True, slots=True)
class SlicePosition:
    """The place of one slice among several."""

    request: str
    slice_id: int
    """The node's place in the request: it stays the same when the node is made anew."""
    num_slices: int
    coordinator: str
    """The address of worker 0 of slice 0; empty while that slice does not exist."""


def position_of(state: State, node: Node) -> SlicePosition | None:
    """The node's place; None for a node that is not part of a multislice."""
    request = state.requests.find(node.queued_resource) if node.multislice else None
    if request is None:
        return None
    names = [wanted.name for wanted in request.spec.nodes]
    first = state.nodes.find(names[0])
    return SlicePosition(
        request=request.name,
        slice_id=names.index(node.name),
        num_slices=len(names),
        coordinator=first.addresses[0] if first is not None else "",
    )
