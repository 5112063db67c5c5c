"""Stop, start and restart the workers of a node that keeps its disks."""

from dataclasses import replace

from localsim.rules.model.cloud_errors import precondition
from localsim.rules.model.events import BootSlice, StopSlice
from localsim.rules.model.nodes import Health, Node, NodeEvent
from localsim.rules.model.operations import Operation, Verb
from localsim.rules.nodes.node_lifecycle import finish_change, move, refuse_during_update
from localsim.rules.state import external_addresses, operation_lifecycle
from localsim.rules.state.state import State
from localsim.rules.supply import networks


def stop(state: State, name: str, now_s: float) -> Operation:
    """Begin to stop a node of one worker."""
    node = state.nodes.get(name)
    if len(node.addresses) > 1:
        raise precondition(f"Stopping '{name}' is not supported: it has more than one worker.")
    if node.spec.scheduling.can_be_preempted:
        raise precondition(f"Stopping '{name}' is not supported: it is a spot node.")
    if node.queued_resource:
        raise precondition(f"Stopping '{name}' is not supported: a queued resource owns it.")
    operation, stopping = _begin(state, node, NodeEvent.STOP, Verb.STOP, now_s)
    state.events.append(StopSlice(stopping))
    return operation


def finish_stop(state: State, name: str, now_s: float) -> None:
    """Make a node STOPPED; its external addresses are free again."""
    finish_change(state, name, NodeEvent.STOPPED, now_s, external_addresses=())


def start(state: State, name: str, now_s: float) -> Operation:
    """Begin to start a stopped node; raises CloudError, such as for too few external addresses."""
    operation, starting = _begin(state, state.nodes.get(name), NodeEvent.START, Verb.START, now_s)
    networks.require_external_addresses(state, starting.zone, [starting.spec])
    addresses = external_addresses.assign_addresses(state, starting.spec, len(starting.addresses))
    starting = state.nodes.put(replace(starting, external_addresses=addresses))
    state.events.append(BootSlice(starting))
    return operation


def restart(state: State, node: Node) -> None:
    """End the workers of a READY node and boot them again on the same disks."""
    down = replace(node, health=Health.HEALTH_UNSPECIFIED, identities=(), killed=())
    restarting = move(state, down, NodeEvent.RESTART)
    state.events += [StopSlice(restarting), BootSlice(restarting)]


def _begin(
    state: State, node: Node, event: NodeEvent, verb: Verb, now_s: float
) -> tuple[Operation, Node]:
    refuse_during_update(node)
    node.next_state(event)
    operation = operation_lifecycle.begin(state, node.name, verb, now_s)
    down = replace(node, health=Health.HEALTH_UNSPECIFIED, health_description="", killed=())
    return operation, move(state, down, event, operation=operation.name)
