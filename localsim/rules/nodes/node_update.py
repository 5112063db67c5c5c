"""UpdateNode: an operation that takes time, on whole fields of a READY node."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from localsim.rules.db.agenda import Action
from localsim.rules.model.cloud_errors import CloudError, Code, invalid
from localsim.rules.model.events import ShowMetadata
from localsim.rules.model.nodes import Network, Node, NodeEvent, NodeSpec, PendingUpdate
from localsim.rules.model.operations import Operation, Verb
from localsim.rules.nodes import node_lifecycle
from localsim.rules.nodes.node_validation import checked_update
from localsim.rules.state import external_addresses, operation_lifecycle
from localsim.rules.state.state import State
from localsim.rules.supply import networks

ALL_FIELDS = "*"
_WHOLE_FIELDS = ("description", "labels", "metadata", "tags", "data_disks")
_EXTERNAL_IPS = "network_config.enable_external_ips"


def _enables_external_ips(spec: NodeSpec) -> bool:
    return spec.network is not None and spec.network.enable_external_ips


UPDATABLE: Mapping[str, Callable[[NodeSpec], Any]] = {
    **{field: attrgetter(field) for field in _WHOLE_FIELDS},
    _EXTERNAL_IPS: _enables_external_ips,
}
"""Path of an update mask -> what it names in a spec; gcloud's attach-disk sends `data_disks`."""


def masked_fields(spec: NodeSpec, paths: Iterable[str]) -> dict[str, Any]:
    """The fields that an update mask names, with their values; `*` names every field.

    Raises INVALID_ARGUMENT for an empty mask, which the API does not allow, and for unknown paths.
    """
    asked = list(dict.fromkeys(paths))
    if not asked:
        raise invalid("The field 'update_mask' must be set.")
    if ALL_FIELDS in asked:
        asked = list(UPDATABLE)
    _require_updatable(asked)
    return {path: UPDATABLE[path](spec) for path in asked}


def begin(state: State, name: str, changes: Mapping[str, Any], now_s: float) -> Operation:
    """Begin to change a node; the operation fails at once unless the node is READY."""
    node = state.nodes.get(name)
    if not changes:
        raise invalid("The field 'update_mask' must be set.")
    _require_updatable(changes)
    spec = checked_update(_changed(node.spec, changes), node.zone)
    node_lifecycle.refuse_during_update(node)
    operation = operation_lifecycle.begin(state, name, Verb.UPDATE, now_s)
    if _fails(state, node, operation.name, now_s):
        return state.operations.get(operation.name)
    state.nodes.put(replace(node, update=PendingUpdate(operation.name, spec)))
    state.agenda.add(now_s + state.scenario.update_delay_s, Action.UPDATE_NODE, name)
    return operation


def finish(state: State, name: str, now_s: float) -> None:
    """Apply the change, unless the node is not READY any more."""
    before = state.nodes.get(name)
    if before.update is None:
        return
    operation = before.update.operation
    unchanged = state.nodes.put(replace(before, update=None))
    if _fails(state, unchanged, operation, now_s):
        return
    wanted = {field: getattr(before.update.spec, field) for field in (*_WHOLE_FIELDS, "network")}
    try:
        changed = replace(unchanged, spec=replace(before.spec, **wanted))
        updated = state.nodes.put(_with_addresses(state, changed))
    except CloudError as error:
        operation_lifecycle.fail(state, operation, now_s, error.code, error.message)
        return
    operation_lifecycle.succeed(state, operation, now_s, updated)
    if _seen_by_workers(before) != _seen_by_workers(updated):
        state.events.append(ShowMetadata(updated))


def _seen_by_workers(node: Node) -> tuple[Any, ...]:
    return node.metadata, node.external_addresses


def _require_updatable(paths: Iterable[str]) -> None:
    unknown = sorted(set(paths) - set(UPDATABLE))
    if unknown:
        raise invalid(f"The field '{unknown[0][:128]}' cannot be updated.")


def _changed(spec: NodeSpec, changes: Mapping[str, Any]) -> NodeSpec:
    fields = {path: value for path, value in changes.items() if path != _EXTERNAL_IPS}
    enable = changes.get(_EXTERNAL_IPS, external_addresses.wants_addresses(spec))
    if enable != external_addresses.wants_addresses(spec):
        if spec.networks:
            raise invalid(f"The field '{_EXTERNAL_IPS}' cannot be updated of 'network_configs'.")
        fields["network"] = replace(spec.network or Network(), enable_external_ips=enable)
    return replace(spec, **fields)


def _fails(state: State, node: Node, operation: str, now_s: float) -> bool:
    """End the operation with an error where the node's state does not allow updates."""
    try:
        node.next_state(NodeEvent.UPDATE)
    except CloudError as error:
        code = Code.INVALID_ARGUMENT  # what Google answers here, though not elsewhere
        operation_lifecycle.fail(state, operation, now_s, code, error.message)
        return True
    return False


def _with_addresses(state: State, node: Node) -> Node:
    """The node with external addresses or without; raises CloudError when there are too few."""
    if external_addresses.wants_addresses(node.spec) == bool(node.external_addresses):
        return node
    networks.require_external_addresses(state, node.zone, [node.spec])
    addresses = external_addresses.assign_addresses(state, node.spec, len(node.addresses))
    return replace(node, external_addresses=addresses)
