"""The loss of a node: preempted, with or without notice, or expired.

Its workers need not vanish together, and their disks go with them.
"""

from dataclasses import replace

from localsim.rules.db.agenda import Action
from localsim.rules.model.cloud_errors import Code, precondition
from localsim.rules.model.events import ApplyWorkerFaults, DestroySlice, NoticePreemption
from localsim.rules.model.nodes import Health, Node, NodeEvent
from localsim.rules.nodes import node_lifecycle
from localsim.rules.scenario.incidents import IncidentKind
from localsim.rules.state import operation_lifecycle
from localsim.rules.state.state import State


def preempt(state: State, name: str, notice_s: float | None, now_s: float) -> float:
    """Take a node away after `notice_s`; None draws the notice from the scenario.

    Returns the notice in seconds.
    """
    node = state.nodes.get(name)
    node.next_state(NodeEvent.PREEMPT)
    if state.agenda.has(Action.PREEMPT_NODE, name):
        raise precondition(f"'{name}' is being preempted already.")
    wait_s = _drawn_notice_s(state, name) if notice_s is None else notice_s
    if wait_s > 0:
        state.events.append(NoticePreemption(node, wait_s))
    _promise_loss(state, node, wait_s, now_s)
    return wait_s


def shorten_notice(state: State, node: Node, notice_s: float, now_s: float) -> None:
    """Take a node away after `notice_s` whose preemption has been announced for later."""
    _promise_loss(state, node, notice_s, now_s)


def lose_worker(state: State, name: str, _now_s: float) -> None:
    """End one worker of a lost node; the last one takes the disks with it."""
    node = state.nodes.get(name)
    left = sorted(set(range(len(node.addresses))) - set(node.killed))
    if len(left) <= 1:
        state.events.append(DestroySlice(node))
        return
    chosen = state.random(name).choice(left)
    fewer = state.nodes.put(replace(node, killed=tuple(sorted({*node.killed, chosen}))))
    state.events.append(ApplyWorkerFaults(fewer))


def mark_lost(state: State, name: str, event: NodeEvent, now_s: float) -> Node | None:
    """Make a node PREEMPTED or, at the end of its life, TERMINATED, as the event says.

    Its disks are lost, and it is listed until it is deleted. Returns None where it was lost before.
    """
    node = state.nodes.find(name)
    if node is None or not node.allows(event):
        return None
    operation_lifecycle.fail(state, node.operation, now_s, Code.ABORTED, f"'{name}' was lost.")
    lost = node_lifecycle.move(
        state,
        node,
        event,
        has_capacity=False,
        operation="",
        identities=(),
        told=(),
        external_addresses=(),
        health=Health.HEALTH_UNSPECIFIED,
        health_description="",
        maintenance=None,
    )
    _promise_end_of_workers(state, lost, now_s)
    return lost


def _promise_loss(state: State, node: Node, notice_s: float, now_s: float) -> None:
    state.incidents.add(IncidentKind.PREEMPTION, node.node_id, now_s, notice_s=notice_s)
    state.agenda.add(now_s + notice_s, Action.PREEMPT_NODE, node.name)


def _promise_end_of_workers(state: State, lost: Node, now_s: float) -> None:
    """End the first worker now and the others within the scenario's spread."""
    spread_s = state.scenario.preemption_spread_s
    if spread_s:
        random = state.random(lost.name)
        alive = len(lost.addresses) - len(lost.killed)
        for after_s in sorted(random.uniform(0, spread_s) for _ in range(alive - 1)):
            state.agenda.add(now_s + after_s, Action.LOSE_WORKER, lost.name)
        lose_worker(state, lost.name, now_s)
    else:
        state.events.append(DestroySlice(lost))


def _drawn_notice_s(state: State, name: str) -> float:
    random = state.random(name)
    if random.random() >= state.scenario.preemption_notice_probability:
        return 0.0
    return random.uniform(0.0, state.scenario.preemption_notice_max_s)
