"""What happens to a node, from the request for it to its end."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from localsim.cloud import operation_life
from localsim.cloud.agenda import Action
from localsim.cloud.errors import CloudError, Code, already_exists, invalid, precondition, with_eid
from localsim.cloud.events import (
    BootSlice,
    DestroySlice,
    MetadataChanged,
    NoticePreemption,
    StopSlice,
)
from localsim.cloud.nodes import (
    NODE_TRANSITIONS,
    Node,
    NodeEvent,
    NodeSpec,
    NodeState,
    WorkerIdentity,
)
from localsim.cloud.operations import Operation, Verb
from localsim.cloud.state import State
from localsim.cloud.transitions import follow
from localsim.cloud.validation import check_texts
from tpuctl import catalog

UPDATABLE = frozenset({"description", "labels", "metadata", "tags"})


def create(state: State, name: str, spec: NodeSpec, now_s: float) -> Operation:
    """Begin a node; its capacity is asked for when the provisioning delay is over."""
    if name in state.nodes:
        raise already_exists(name)
    operation = operation_life.begin(state, name, Verb.CREATE, now_s)
    node = _new(state, name, spec, now_s)
    state.nodes.put(replace(node, operation=operation.name))
    state.agenda.add(now_s + state.scenario.provisioning_delay_s, Action.PROVISION_NODE, name)
    return operation


def create_owned(state: State, name: str, spec: NodeSpec, owner: str, now_s: float) -> None:
    """Begin a node of a queued resource, which has its capacity already."""
    node = _new(state, name, spec, now_s)
    state.nodes.put(replace(node, queued_resource=owner, has_capacity=True))
    state.agenda.add(now_s + state.scenario.provisioning_delay_s, Action.PROVISION_NODE, name)


def provision(state: State, name: str, now_s: float) -> None:
    """Let the workers boot, or end the node when the zone has no capacity left."""
    node = state.nodes.get(name)
    kind = node.spec.accelerator_type
    if node.has_capacity or state.has_capacity(node.zone, kind):
        booting = state.nodes.put(replace(node, has_capacity=True))
        state.events.append(BootSlice(booting))
        return
    message = with_eid(
        f'There is no more capacity in the zone "{node.zone}" for accelerator type "{kind}"; '
        f"try another zone that has it: {_other_zones(kind, node.zone)}."
    )
    operation_life.fail(state, node.operation, now_s, Code.RESOURCE_EXHAUSTED, message)
    state.nodes.remove(name)


def booted(state: State, name: str, identities: Sequence[WorkerIdentity], now_s: float) -> Node:
    """The workers are up: READY."""
    return _settle(state, name, NodeEvent.BOOT, now_s, identities=tuple(identities))


def failed_to_boot(state: State, node: Node, message: str, now_s: float) -> None:
    """The workers do not come up: STOPPED again, or gone when they never were."""
    operation_life.fail(state, node.operation, now_s, Code.INTERNAL, message)
    if node.state == NodeState.STARTING:
        following = follow(NODE_TRANSITIONS, node.name, node.state, NodeEvent.FAIL_TO_BOOT)
        state.nodes.put(replace(node, state=following, operation=""))
    else:
        state.nodes.remove(node.name)
        state.events.append(DestroySlice(node))


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


def stopped(state: State, name: str, now_s: float) -> None:
    """The workers have ended: STOPPED."""
    _settle(state, name, NodeEvent.STOPPED, now_s)


def start(state: State, name: str, now_s: float) -> Operation:
    """Begin to start a stopped node."""
    operation, starting = _begin(state, state.nodes.get(name), NodeEvent.START, Verb.START, now_s)
    state.events.append(BootSlice(starting))
    return operation


def update(state: State, name: str, changes: Mapping[str, Any], now_s: float) -> Operation:
    """Replace whole fields; in any state but READY the operation ends with an error."""
    node = state.nodes.get(name)
    unknown = sorted(set(changes) - UPDATABLE)
    if unknown or not changes:
        raise invalid(f"The update mask cannot be applied: {', '.join(unknown) or 'it is empty'}.")
    spec = replace(node.spec, **changes)
    check_texts(spec.description, spec.labels, spec.metadata)
    operation = operation_life.begin(state, name, Verb.UPDATE, now_s)
    try:
        follow(NODE_TRANSITIONS, name, node.state, NodeEvent.UPDATE)
    except CloudError as error:
        code = Code.INVALID_ARGUMENT  # what Google answers here, though not elsewhere
        operation_life.fail(state, operation.name, now_s, code, error.message)
        return state.operations.get(operation.name)
    updated = state.nodes.put(replace(node, spec=spec))
    operation_life.succeed(state, operation.name, now_s, updated)
    if "metadata" in changes:
        state.events.append(MetadataChanged(updated))
    return state.operations.get(operation.name)


def delete(state: State, name: str, now_s: float) -> Operation:
    """Begin to delete a node in whatever state it is."""
    node = state.nodes.get(name)
    operation, deleting = _begin(state, node, NodeEvent.DELETE, Verb.DELETE, now_s)
    cancelled = f"'{name}' was deleted."
    operation_life.fail(state, node.operation, now_s, Code.CANCELLED, cancelled)
    state.agenda.cancel(name)
    state.agenda.add(now_s + state.scenario.deletion_delay_s, Action.REMOVE_NODE, name)
    state.events.append(DestroySlice(deleting))
    return operation


def removed(state: State, name: str, now_s: float) -> None:
    """The node is gone."""
    node = state.nodes.get(name)
    state.nodes.remove(name)
    operation_life.succeed(state, node.operation, now_s)


def preempt(state: State, name: str, notice_s: float | None, now_s: float) -> None:
    """Take a node away after a notice; None draws it from the scenario."""
    node = state.nodes.get(name)
    follow(NODE_TRANSITIONS, name, node.state, NodeEvent.PREEMPT)
    if state.agenda.has(Action.PREEMPT_NODE, name):
        raise precondition(f"'{name}' is being preempted already.")
    wait_s = _drawn_notice_s(state, name) if notice_s is None else notice_s
    if wait_s > 0:
        state.events.append(NoticePreemption(node, wait_s))
    state.agenda.add(now_s + wait_s, Action.PREEMPT_NODE, name)


def preempted(state: State, name: str) -> Node | None:
    """The node is lost with its disks; it stays listed until it is deleted."""
    node = state.nodes.get(name)
    if NodeEvent.PREEMPT not in NODE_TRANSITIONS[node.state]:
        return None
    following = follow(NODE_TRANSITIONS, name, node.state, NodeEvent.PREEMPT)
    lost = state.nodes.put(replace(node, state=following, has_capacity=False, identities=()))
    state.events.append(DestroySlice(lost))
    return lost


def is_booting(node: Node) -> bool:
    """Whether its workers were asked to boot and have not said that they are up."""
    return node.state == NodeState.STARTING or (
        node.state == NodeState.CREATING and node.has_capacity
    )


def _new(state: State, name: str, spec: NodeSpec, now_s: float) -> Node:
    workers = catalog.accelerator_type(spec.accelerator_type).workers
    return Node(
        name=name,
        id=state.random(name).getrandbits(62),
        spec=spec,
        state=NodeState.CREATING,
        create_time_s=now_s,
        addresses=state.new_addresses(workers),
    )


def _begin(
    state: State, node: Node, event: NodeEvent, verb: Verb, now_s: float
) -> tuple[Operation, Node]:
    following = follow(NODE_TRANSITIONS, node.name, node.state, event)
    operation = operation_life.begin(state, node.name, verb, now_s)
    return operation, state.nodes.put(replace(node, state=following, operation=operation.name))


def _settle(state: State, name: str, event: NodeEvent, now_s: float, **changes: Any) -> Node:
    node = state.nodes.get(name)
    following = follow(NODE_TRANSITIONS, name, node.state, event)
    settled = state.nodes.put(replace(node, state=following, operation="", **changes))
    operation_life.succeed(state, node.operation, now_s, settled)
    return settled


def _drawn_notice_s(state: State, name: str) -> float:
    random = state.random(name)
    if random.random() >= state.scenario.preemption_notice_probability:
        return 0.0
    return random.uniform(0.0, state.scenario.preemption_notice_max_s)


def _other_zones(accelerator_type: str, zone: str) -> str:
    others = [other for other in catalog.zones_of(accelerator_type) if other != zone]
    return ", ".join(others) or "none"
