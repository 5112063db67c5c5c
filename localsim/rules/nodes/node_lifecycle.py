"""The life of a node, from its creation to its deletion."""

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

from localsim.rules.db.agenda import Action
from localsim.rules.model.cloud_errors import CloudError, Code, already_exists, conflict, invalid
from localsim.rules.model.events import BootSlice, DestroySlice, NoticeMaintenance
from localsim.rules.model.nodes import Health, Node, NodeEvent, NodeSpec, NodeState, Symptom
from localsim.rules.model.operations import Operation, Verb
from localsim.rules.model.resource_names import zone_of
from localsim.rules.nodes.node_defaults import complete_spec
from localsim.rules.scenario.distributions import draw_amount
from localsim.rules.state import external_addresses, node_faults, operation_lifecycle, subnets
from localsim.rules.state.state import State
from localsim.rules.supply import capacity, networks, quota, reservations
from localsim.worker_facts import HostIdentity

PREEMPTIBLE_LIFE_S = 24 * 3600.0
"""Preemptible nodes, unlike spot ones, end after 24 hours: TERMINATED, as the API describes it."""


def create(
    state: State, name: str, spec: NodeSpec, now_s: float, *, request_id: str = ""
) -> Operation:
    """Begin a node; it claims its capacity after the provisioning delay. Raises CloudError."""
    repeated = operation_lifecycle.find_repeated(state, name, Verb.CREATE, request_id, spec)
    if repeated is not None:
        return repeated
    if name in state.nodes:
        raise already_exists(name)
    _require_free_block(state, spec)
    parent = name.partition("/nodes/")[0]
    reservations.check(state, parent, spec, now_s)
    quota.require(state, zone_of(name), [spec])
    networks.require_network(state, parent, spec)
    subnets.require_room(state, parent, spec.kind.workers)
    operation = operation_lifecycle.begin(
        state, name, Verb.CREATE, now_s, request_id=request_id, body=spec
    )
    state.nodes.put(replace(_new(state, name, spec, now_s), operation=operation.name))
    _promise_provisioning(state, name, now_s)
    return operation


def create_owned(
    state: State, name: str, spec: NodeSpec, owner: str, now_s: float, *, multislice: bool = False
) -> None:
    """Begin a node of a queued resource, which has claimed its capacity already."""
    node = replace(_new(state, name, spec, now_s), queued_resource=owner, multislice=multislice)
    state.nodes.put(_with_machines(state, node))
    _promise_provisioning(state, name, now_s)


def provision(state: State, name: str, now_s: float) -> None:
    """Boot the workers, or end the node when there is no capacity for it."""
    node = state.nodes.get(name)
    if not node.has_capacity:
        try:
            node = state.nodes.put(
                _with_machines(state, capacity.claim_capacity(state, node, now_s))
            )
        except CloudError as error:
            give_up(state, node, error.code, error.message, now_s)
            return
    state.events.append(BootSlice(node))


def give_up(state: State, node: Node, code: Code, message: str, now_s: float) -> None:
    """Remove a node that never was READY; its operation fails."""
    state.agenda.cancel(node.name)
    operation_lifecycle.fail(state, node.operation, now_s, code, message)
    state.nodes.remove(node.name)


def mark_ready(state: State, name: str, identities: Sequence[HostIdentity], now_s: float) -> Node:
    """Make a node READY because its workers are up."""
    before = state.nodes.get(name)
    if before.state == NodeState.CREATING and before.spec.scheduling.preemptible:
        state.agenda.add(now_s + PREEMPTIBLE_LIFE_S, Action.EXPIRE_NODE, name)
    is_repaired = before.state == NodeState.REPAIRING
    was_up = before.state == NodeState.READY  # the simulator was down, and not its workers
    ready = finish_change(
        state,
        name,
        NodeEvent.BOOT,
        now_s,
        identities=tuple(identities),
        health=before.health if was_up else Health.HEALTHY,
        health_description=before.health_description if was_up else "",
        maintenance=None if is_repaired else before.maintenance,
    )
    if is_repaired:
        state.events.append(NoticeMaintenance(ready))
    if before.state == NodeState.CREATING:
        node_faults.strike_new_node(state, ready)
    node_faults.schedule_detection(state, ready, now_s)
    return ready


def handle_boot_failure(state: State, node: Node, message: str, now_s: float) -> None:
    """Handle workers that do not come up.

    The node is removed when it never was up, STOPPED again when it was starting, else UNKNOWN.
    """
    if node.state == NodeState.CREATING:
        give_up(state, node, Code.INTERNAL, message, now_s)
        state.events.append(DestroySlice(node))
    elif node.state == NodeState.STARTING:
        operation_lifecycle.fail(state, node.operation, now_s, Code.INTERNAL, message)
        move(state, node, NodeEvent.FAIL_TO_BOOT, operation="", external_addresses=())
    else:
        mark_broken(state, node, message, now_s)


def mark_broken(state: State, node: Node, message: str, now_s: float) -> Node:
    """Make a node UNKNOWN whose workers do not come back."""
    operation_lifecycle.fail(state, node.operation, now_s, Code.INTERNAL, message)
    return move(
        state,
        node,
        NodeEvent.FAIL_TO_BOOT,
        operation="",
        maintenance=None,
        health=Health.TIMEOUT,
        health_description=message,
        symptoms=(*node.symptoms, Symptom(now_s, "MESH_BUILD_FAIL", message, "0")),
    )


def delete(state: State, name: str, now_s: float, *, request_id: str = "") -> Operation:
    """Begin to delete a node in any state."""
    node = state.nodes.get(name)
    node.next_state(NodeEvent.DELETE)
    operation = operation_lifecycle.begin(state, name, Verb.DELETE, now_s, request_id=request_id)
    operation_lifecycle.fail_all_of(state, node, now_s, Code.CANCELLED, f"'{name}' was deleted.")
    changed = replace(node, health=Health.HEALTH_UNSPECIFIED, update=None, told=())
    deleting = move(state, changed, NodeEvent.DELETE, operation=operation.name)
    state.agenda.cancel(name)
    state.agenda.add(now_s + state.scenario.deletion_delay_s, Action.REMOVE_NODE, name)
    state.events.append(DestroySlice(deleting))
    return operation


def finish_delete(state: State, name: str, now_s: float) -> None:
    """Remove a node; its operation succeeds."""
    node = state.nodes.get(name)
    state.nodes.remove(name)
    operation_lifecycle.succeed(state, node.operation, now_s)


def is_waiting(node: Node) -> bool:
    """Whether a node waits for capacity, so that its creation can be cancelled."""
    return node.state == NodeState.CREATING and not node.has_capacity


def is_booting(state: State, node: Node) -> bool:
    """Whether the workers were asked to boot and have not reported that they are up."""
    match node.state:
        case NodeState.STARTING | NodeState.RESTARTING:
            return True
        case NodeState.CREATING:
            return node.has_capacity and not state.agenda.has(Action.PROVISION_NODE, node.name)
        case NodeState.REPAIRING:
            return not state.agenda.has(Action.REPAIR_NODE, node.name)
    return False


def has_disks(state: State, node: Node) -> bool:
    """Whether the workers of a node have disks.

    Before a node's first boot, disks of its name are those of an earlier node.
    """
    if node.state == NodeState.CREATING:
        return is_booting(state, node)
    if node.state in (NodeState.PREEMPTED, NodeState.TERMINATED):
        return state.agenda.has(Action.LOSE_WORKER, node.name)
    return node.state != NodeState.DELETING


def refuse_during_update(node: Node) -> None:
    """Raise ABORTED (HTTP 409, which gcloud expects) while an UpdateNode of the node runs."""
    if node.update is not None:
        raise conflict(f"'{node.name}' is being changed by '{node.update.operation}'.")


def move(state: State, node: Node, event: NodeEvent, **changes: Any) -> Node:
    """Follow `event` to the node's next state with these changes; raises CloudError."""
    following = node.next_state(event)
    return state.nodes.put(replace(node, state=following, **changes))


def finish_change(state: State, name: str, event: NodeEvent, now_s: float, **changes: Any) -> Node:
    """Follow `event` to the node's next state with these changes; its operation succeeds."""
    node = state.nodes.get(name)
    result = move(state, node, event, operation="", **changes)
    operation_lifecycle.succeed(state, node.operation, now_s, result)
    return result


def _new(state: State, name: str, spec: NodeSpec, now_s: float) -> Node:
    return Node(
        name=name,
        id=state.random(name).getrandbits(62),
        spec=complete_spec(state, name, spec),
        state=NodeState.CREATING,
        create_time_s=now_s,
        addresses=subnets.new_addresses(state, zone_of(name), spec.kind.workers),
    )


def _with_machines(state: State, node: Node) -> Node:
    """The node with capacity and with the external addresses of its workers."""
    external = external_addresses.assign_addresses(state, node.spec, len(node.addresses))
    return replace(node, has_capacity=True, external_addresses=external)


def _require_free_block(state: State, spec: NodeSpec) -> None:
    if not spec.cidr_block:
        return
    block = IPv4Network(spec.cidr_block)
    for node in state.nodes:
        if node.spec.cidr_block and block.overlaps(IPv4Network(node.spec.cidr_block)):
            raise invalid(f"The CIDR block '{block}' is in use by '{node.name}'.")


def _promise_provisioning(state: State, name: str, now_s: float) -> None:
    delay_s = draw_amount(state.scenario.provisioning_delay_s, lambda: state.random(name))
    state.agenda.add(now_s + delay_s, Action.PROVISION_NODE, name)
