"""Maintenance of a node: announced, begun when its window starts or on request, and over.

The workers go down and come back; a node of a multislice takes its sisters with it, because their
programs must start again together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from localsim.rules.db.agenda import Action
from localsim.rules.model.cloud_errors import Code, conflict, invalid, precondition
from localsim.rules.model.events import BootSlice, NoticeMaintenance, StopSlice
from localsim.rules.model.nodes import Health, Node, NodeEvent, NodeState
from localsim.rules.model.operations import Operation, Verb
from localsim.rules.model.queued_resources import RequestState
from localsim.rules.nodes import node_lifecycle, node_power
from localsim.rules.state import operation_lifecycle
from localsim.rules.state.state import State
from localsim.worker_facts import Maintenance

NOTICE_S = 7 * 86400.0
"""How long before it starts scheduled maintenance is announced."""
AUTOCHECKPOINT_LIMIT_S = 300.0
"""How long a program may take to save: five minutes, says one field report."""
RESCHEDULABLE_FOR_S = 7 * 86400.0
"""How much later than announced a window can start; assumed."""
_BROKEN = "The repair of the node failed."
_DOWN = "The node is under maintenance."


@dataclass(frozen=True, slots=True)
class MaintenanceAnnouncement:
    """A maintenance to announce; `type` is SCHEDULED or UNSCHEDULED."""

    starts_in_s: float = NOTICE_S
    window_s: float = 4 * 3600.0
    type: str = "SCHEDULED"
    can_reschedule: bool = True


def announce(state: State, name: str, announcement: MaintenanceAnnouncement, now_s: float) -> Node:
    """Announce maintenance to a READY node; raises CloudError."""
    node = state.nodes.get(name)
    node.next_state(NodeEvent.REPAIR)
    start_s = now_s + announcement.starts_in_s
    planned = Maintenance(
        type=announcement.type,
        can_reschedule=announcement.can_reschedule,
        window_start_s=start_s,
        window_end_s=start_s + announcement.window_s,
        latest_window_start_s=start_s + RESCHEDULABLE_FOR_S * announcement.can_reschedule,
        status="PENDING",
    )
    announced = state.nodes.put(replace(node, maintenance=planned))
    state.events.append(NoticeMaintenance(announced))
    state.agenda.add(start_s, Action.BEGIN_MAINTENANCE, name)
    return announced


def begin_due(state: State, name: str, now_s: float) -> None:
    """Begin the announced maintenance; a node whose workers do not run has none."""
    node = state.nodes.get(name)
    planned = node.maintenance
    if planned is None or planned.status != "PENDING" or planned.window_start_s > now_s:
        return  # it was begun on request, or announced again for later
    if node.allows(NodeEvent.REPAIR):
        _begin(state, node, planned, now_s)
    else:
        state.nodes.put(replace(node, maintenance=None))


def perform(state: State, name: str, now_s: float) -> Operation:
    """Begin the announced maintenance now; raises CloudError where it cannot be moved."""
    node = state.nodes.get(name)
    planned = _performable(node)
    operation = operation_lifecycle.begin(state, name, Verb.PERFORM_MAINTENANCE, now_s)
    _begin(state, node, replace(planned, window_start_s=now_s), now_s, operation=operation.name)
    return operation


def perform_on_request(
    state: State, name: str, node_names: Sequence[str], now_s: float
) -> Operation:
    """Begin the announced maintenance of nodes of an ACTIVE request now.

    No names mean all nodes that have maintenance. The operation ends when all of them are back.
    Raises CloudError.
    """
    request = state.requests.get(name)
    if request.state != RequestState.ACTIVE:
        verb = Verb.PERFORM_MAINTENANCE
        raise precondition(f"'{verb}' of '{name}' is not supported while in state {request.state}.")
    if request.operation:
        raise conflict(f"'{name}' is being changed by '{request.operation}'.")
    nodes = _request_nodes(state, name, node_names)
    planned = [_performable(node) for node in nodes]
    operation = operation_lifecycle.begin(state, name, Verb.PERFORM_MAINTENANCE, now_s)
    state.requests.put(replace(request, operation=operation.name))
    for node, maintenance in zip(nodes, planned, strict=True):
        _begin(state, node, replace(maintenance, window_start_s=now_s), now_s)
    return operation


def settle_request(state: State, owner: str, now_s: float) -> None:
    """End the operation of `perform_on_request` when the last of its nodes is back, or lost."""
    request = state.requests.find(owner)
    operation = state.operations.find(request.operation) if request else None
    if request is None or operation is None or operation.verb != Verb.PERFORM_MAINTENANCE:
        return
    states = {node.state for node in state.nodes_by_owner[request.name]}
    if states & {NodeState.REPAIRING, NodeState.RESTARTING}:
        return
    settled = state.requests.put(replace(request, operation=""))
    if NodeState.UNKNOWN in states:
        operation_lifecycle.fail(state, operation.name, now_s, Code.INTERNAL, _BROKEN)
    elif states & {NodeState.PREEMPTED, NodeState.TERMINATED, NodeState.DELETING}:
        sentence = f"A node of '{owner}' was lost."
        operation_lifecycle.fail(state, operation.name, now_s, Code.ABORTED, sentence)
    else:
        operation_lifecycle.succeed(state, operation.name, now_s, settled)


def simulate(state: State, name: str, worker_ids: Sequence[str], now_s: float) -> Operation:
    """Do what an unannounced maintenance does to the first named worker, else to worker 0."""
    node = state.nodes.get(name)
    worker_id = next(iter(worker_ids), "") or "0"
    if worker_id not in map(str, range(len(node.addresses))):
        raise invalid(f"'{name}' has no worker '{worker_id[:128]}'.")
    node.next_state(NodeEvent.REPAIR)
    node_lifecycle.refuse_during_update(node)
    operation = operation_lifecycle.begin(state, name, Verb.SIMULATE_MAINTENANCE, now_s)
    end_s = now_s + state.scenario.repair_delay_s
    event = Maintenance(
        type="UNSCHEDULED",
        can_reschedule=False,
        window_start_s=now_s,
        window_end_s=end_s,
        latest_window_start_s=now_s,
        status="PENDING",
    )
    _begin(state, node, event, now_s, operation=operation.name)
    return operation


def finish_repair(state: State, name: str, now_s: float) -> Node | None:
    """Boot the workers again; return the node only when its repair has failed."""
    node = state.nodes.get(name)
    if node.state != NodeState.REPAIRING:
        return None  # it was lost meanwhile
    probability = state.scenario.repair_failure_probability
    if probability and state.random(name).random() < probability:
        return node_lifecycle.mark_broken(state, node, _BROKEN, now_s)
    state.events.append(BootSlice(node))
    for sister in _sisters(state, node):
        node_power.restart(state, sister)
    return None


def _performable(node: Node) -> Maintenance:
    """The maintenance that the user may begin now; raises FAILED_PRECONDITION or ABORTED."""
    planned = node.maintenance
    if planned is None:
        raise precondition(f"No maintenance of '{node.name}' is announced.")
    if planned.status != "PENDING":
        raise precondition(f"The maintenance of '{node.name}' is {planned.status} already.")
    if not planned.can_reschedule:
        raise precondition(f"The maintenance of '{node.name}' cannot be rescheduled.")
    node.next_state(NodeEvent.REPAIR)
    node_lifecycle.refuse_during_update(node)
    return planned


def _request_nodes(state: State, owner: str, node_names: Sequence[str]) -> list[Node]:
    """The nodes of a request by full name or id; without a name those with maintenance to come."""
    family = {node.name: node for node in state.nodes_by_owner[owner]}
    family |= {node.node_id: node for node in family.values()}
    unknown = [name for name in node_names if name not in family]
    if unknown:
        raise invalid(f"'{owner}' has no node '{unknown[0][:128]}'.")
    asked = {family[name].name: family[name] for name in node_names or family}
    wanted = [node for node in asked.values() if node_names or node.maintenance is not None]
    if not wanted:
        raise precondition(f"No maintenance of a node of '{owner}' is announced.")
    return wanted


def _begin(
    state: State, node: Node, planned: Maintenance, now_s: float, *, operation: str = ""
) -> None:
    down = node_lifecycle.move(
        state,
        node,
        NodeEvent.REPAIR,
        operation=operation,
        maintenance=replace(planned, status="ONGOING", can_reschedule=False),
        health=Health.UNHEALTHY_MAINTENANCE,
        health_description=_DOWN,
        identities=(),
        killed=(),
    )
    until_s = now_s + AUTOCHECKPOINT_LIMIT_S if node.spec.autocheckpoint_enabled else None
    state.events += [NoticeMaintenance(down, until_s), StopSlice(down)]
    state.agenda.add(now_s + state.scenario.repair_delay_s, Action.REPAIR_NODE, node.name)


def _sisters(state: State, node: Node) -> list[Node]:
    if not (node.multislice and node.queued_resource):
        return []
    family = list(state.nodes_by_owner[node.queued_resource])
    return [each for each in family if each.name != node.name and each.state == NodeState.READY]
