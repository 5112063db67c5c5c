"""What the workers of a node tell the control plane about themselves."""

from collections.abc import Sequence
from dataclasses import dataclass

from localsim.cloud.errors import invalid, precondition
from localsim.cloud.nodes import Node, NodeState, WorkerIdentity


@dataclass(frozen=True, slots=True)
class GuestAttribute:
    """One entry of one worker."""

    namespace: str
    key: str
    value: str


def of_workers(
    node: Node, query_path: str, worker_ids: Sequence[str]
) -> tuple[tuple[GuestAttribute, ...], ...]:
    """The attributes under `query_path`, worker by worker; no ids, or an empty one, mean all."""
    if node.state != NodeState.READY:
        raise precondition(f"Guest attributes of '{node.name}' need a node that is READY.")
    asked = [worker_id for worker_id in worker_ids if worker_id]
    everybody = {str(index): identity for index, identity in enumerate(node.identities)}
    unknown = [worker_id for worker_id in asked if worker_id not in everybody]
    if unknown:
        raise invalid(f"'{node.name}' has no worker '{unknown[0]}'.")
    return tuple(
        tuple(each for each in _attributes(everybody[worker_id]) if _matches(each, query_path))
        for worker_id in (asked or everybody)
    )


def _attributes(identity: WorkerIdentity) -> tuple[GuestAttribute, ...]:
    kind, _, key = identity.host_key.partition(" ")
    return (
        GuestAttribute("guest-attributes", "hostname", identity.hostname),
        GuestAttribute("hostkeys", kind, key),
    )


def _matches(attribute: GuestAttribute, query_path: str) -> bool:
    namespace, _, key = query_path.partition("/")
    return namespace in ("", attribute.namespace) and key in ("", attribute.key)
