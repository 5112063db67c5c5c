"""Guest attributes: what the workers of a node report to the control plane.

Google's own are the host name and the host keys; all others are what a program on the worker has
PUT on its metadata server, and no more: the service never writes how a startup-script ended.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from localsim.rules.model.cloud_errors import CloudError, Code, invalid, not_found, precondition
from localsim.rules.model.nodes import Node, NodeState
from localsim.rules.state.state import State
from localsim.worker_facts import GuestAttributesEntry, HostIdentity

# Compute Engine refuses entries without a namespace; the figures are assumed.
MAX_VALUE_BYTES = 32 * 1024
MAX_ENTRIES = 1000
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_WITHOUT_WORKERS = frozenset(
    {
        NodeState.DELETING,
        NodeState.PREEMPTED,
        NodeState.TERMINATED,
        NodeState.STOPPED,
        NodeState.UNKNOWN,
    }
)
_Entries = tuple[GuestAttributesEntry, ...]


def query_attributes(
    node: Node, query_path: str, worker_ids: Sequence[str]
) -> tuple[_Entries, ...]:
    """The attributes under `query_path`, worker by worker; no ids, or an empty one, mean all."""
    if node.state != NodeState.READY:
        raise precondition(
            f"'getGuestAttributes' of '{node.name}' is not supported while in state {node.state}."
        )
    asked = [worker_id for worker_id in worker_ids if worker_id]
    everybody = {str(index): index for index in range(len(node.addresses))}
    unknown = [worker_id for worker_id in asked if worker_id not in everybody]
    if unknown:
        raise invalid(f"'{node.name}' has no worker '{unknown[0][:128]}'.")
    path = query_path.removeprefix("/")
    return tuple(
        tuple(each for each in _of_worker(node, everybody[worker_id]) if _matches(each, path))
        for worker_id in (asked or everybody)
    )


def worker_attributes(node: Node, worker_index: int) -> _Entries:
    """The entries that a worker itself has PUT, the oldest first."""
    return node.told[worker_index] if worker_index < len(node.told) else ()


def put_attribute(state: State, node: Node, worker_index: int, told: GuestAttributesEntry) -> Node:
    """Write one entry of a worker; raises CloudError."""
    _require_worker(node, worker_index)
    if not (_NAME.fullmatch(told.namespace) and _NAME.fullmatch(told.key)):
        raise invalid(f"Invalid guest attribute '{told.namespace[:128]}/{told.key[:128]}'.")
    if len(told.value.encode(errors="replace")) > MAX_VALUE_BYTES:
        raise invalid(f"A guest attribute can have at most {MAX_VALUE_BYTES} bytes.")
    entries = {**_by_name(node, worker_index), (told.namespace, told.key): told}
    if len(entries) > MAX_ENTRIES:
        sentence = f"A worker can have at most {MAX_ENTRIES} guest attributes."
        raise CloudError(Code.RESOURCE_EXHAUSTED, sentence)
    return _with_entries(state, node, worker_index, entries)


def remove_attribute(state: State, node: Node, worker_index: int, namespace: str, key: str) -> Node:
    """Delete one entry of a worker; raises CloudError when there is none."""
    _require_worker(node, worker_index)
    entries = _by_name(node, worker_index)
    if entries.pop((namespace, key), None) is None:
        raise not_found(f"{node.name}/guestAttributes/{namespace}/{key}")
    return _with_entries(state, node, worker_index, entries)


def _require_worker(node: Node, worker_index: int) -> None:
    if node.state in _WITHOUT_WORKERS:
        raise precondition(f"'{node.name}' has no running workers in state {node.state}.")
    if not 0 <= worker_index < len(node.addresses):
        raise invalid(f"'{node.name}' has no worker '{worker_index}'.")


def _by_name(node: Node, worker_index: int) -> dict[tuple[str, str], GuestAttributesEntry]:
    return {(each.namespace, each.key): each for each in worker_attributes(node, worker_index)}


def _with_entries(
    state: State, node: Node, worker_index: int, entries: Mapping[Any, GuestAttributesEntry]
) -> Node:
    told = [worker_attributes(node, index) for index in range(len(node.addresses))]
    told[worker_index] = tuple(entries.values())
    return state.nodes.put(replace(node, told=tuple(told)))


def _of_worker(node: Node, index: int) -> _Entries:
    own = _of_service(node.identities[index]) if index < len(node.identities) else ()
    entries = {(each.namespace, each.key): each for each in own + worker_attributes(node, index)}
    return tuple(entries.values())


def _of_service(identity: HostIdentity) -> _Entries:
    kind, _, key = identity.host_key.partition(" ")
    return (
        GuestAttributesEntry("guest-attributes", "hostname", identity.hostname),
        GuestAttributesEntry("hostkeys", kind, key),
    )


def _matches(attribute: GuestAttributesEntry, path: str) -> bool:
    namespace, _, key = path.partition("/")
    return namespace in ("", attribute.namespace) and key in ("", attribute.key)
