"""What is done when an entry of the agenda falls due, and what a scenario puts on it."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from localsim.rules import timeline_firing
from localsim.rules.db.agenda import Action, AgendaEntry
from localsim.rules.model.nodes import Node, NodeEvent
from localsim.rules.model.queued_resources import Initiator
from localsim.rules.nodes import maintenance, node_lifecycle, node_loss, node_update
from localsim.rules.requests import admission, request_create, request_lifecycle
from localsim.rules.scenario.distributions import draw_amount
from localsim.rules.state import node_faults
from localsim.rules.state.state import State
from localsim.rules.supply import capacity

FREES_CAPACITY = frozenset(
    {
        Action.REMOVE_NODE,
        Action.PREEMPT_NODE,
        Action.EXPIRE_NODE,
        Action.PROVISION_NODE,
        Action.CHANGE_CAPACITY,
        Action.FIRE_ENTRY,
        Action.END_ENTRY,
    }
)
"""After these there may be capacity that somebody waits for."""
_OF_THE_SCENARIO = frozenset({Action.CHANGE_CAPACITY, Action.FIRE_ENTRY, Action.END_ENTRY})
"""They are about no resource."""


_ANNOUNCED = {
    "notice_s": "starts_in_s",
    "window_s": "window_s",
    "type": "type",
    "can_reschedule": "can_reschedule",
}
"""Key of a scenario's maintenance -> field of an Announcement."""


def apply_entry(state: State, entry: AgendaEntry) -> None:
    """Do what an entry promises, as of its due time.

    An entry whose node or request does not exist any more is dropped.
    """
    subject = entry.subject
    exists = state.nodes.find(subject) or state.requests.find(subject)
    if not exists and entry.action not in _OF_THE_SCENARIO:
        return
    _ACTIONS[entry.action](state, entry.subject, entry.due_s)
    if entry.action in FREES_CAPACITY:
        offer_capacity(state, entry.due_s)


def offer_capacity(state: State, now_s: float) -> None:
    """Give free capacity to those that wait for it: first to repairs, then to queued resources."""
    request_lifecycle.repair_all(state, now_s)
    admission.admit_waiting(state, now_s)


def handle_lost_node(state: State, node: Node | None, now_s: float) -> None:
    """Suspend the queued resource that owns a node which the service has lost."""
    if node is not None:
        request_lifecycle.handle_lost_node(state, node, Initiator.SERVICE, now_s)
        maintenance.settle_request(state, node.queued_resource, now_s)


def schedule_events(state: State, node: Node, now_s: float) -> None:
    """Put the scenario's plans for a node that is READY for the first time on the agenda."""
    lifetime = state.scenario.spot_lifetime_s
    if node.spot and lifetime is not None:
        life_s = draw_amount(lifetime, lambda: state.random(f"{node.name}/life"))
        state.agenda.add(now_s + life_s, Action.END_SPOT_LIFE, node.name)
    plan = _plan(state, node)
    if plan is not None:
        due_s = now_s + plan["after_s"]
        state.agenda.add(due_s, Action.ANNOUNCE_MAINTENANCE, node.name)


def _lose(event: NodeEvent, state: State, name: str, now_s: float) -> None:
    handle_lost_node(state, node_loss.mark_lost(state, name, event, now_s), now_s)


def _repair(state: State, name: str, now_s: float) -> None:
    handle_lost_node(state, maintenance.finish_repair(state, name, now_s), now_s)


def _provision(state: State, name: str, now_s: float) -> None:
    node = state.nodes.get(name)
    if node.queued_resource and capacity.is_overdrawn(state, node, now_s):
        request_lifecycle.handle_stockout(state, node, now_s)
    else:
        node_lifecycle.provision(state, name, now_s)


def _end_spot_life(state: State, name: str, now_s: float) -> None:
    """Preempt a spot node; ignored when it is being preempted or deleted already."""
    node = state.nodes.get(name)
    is_going = state.agenda.has(Action.PREEMPT_NODE, name)
    if not is_going and node.allows(NodeEvent.PREEMPT):
        node_loss.preempt(state, name, None, now_s)


def _announce_maintenance(state: State, name: str, now_s: float) -> None:
    """Announce the scenario's maintenance of a READY node; other nodes have none then."""
    node = state.nodes.get(name)
    plan = _plan(state, node)
    if plan is None or not node.allows(NodeEvent.REPAIR):
        return
    asked = {field: plan[key] for key, field in _ANNOUNCED.items() if key in plan}
    maintenance.announce(state, name, maintenance.MaintenanceAnnouncement(**asked), now_s)


def _plan(state: State, node: Node) -> Mapping[str, Any] | None:
    """The first maintenance entry of the scenario whose pattern matches the node's id, or None."""
    plans = state.scenario.maintenance
    return next((plan for plan in plans if fnmatchcase(node.node_id, plan["nodes"])), None)


def _change_capacity(_state: State, _subject: str, _now_s: float) -> None:
    """Do nothing here: `apply_entry` offers the new capacity afterwards."""


_ACTIONS: Mapping[Action, Callable[[State, str, float], object]] = {
    Action.PROVISION_NODE: _provision,
    Action.PREEMPT_NODE: partial(_lose, NodeEvent.PREEMPT),
    Action.EXPIRE_NODE: partial(_lose, NodeEvent.EXPIRE),
    Action.LOSE_WORKER: node_loss.lose_worker,
    Action.NOTICE_TROUBLE: node_faults.detect_faults,
    Action.END_SPOT_LIFE: _end_spot_life,
    Action.ANNOUNCE_MAINTENANCE: _announce_maintenance,
    Action.UPDATE_NODE: node_update.finish,
    Action.BEGIN_MAINTENANCE: maintenance.begin_due,
    Action.REPAIR_NODE: _repair,
    Action.REMOVE_NODE: node_lifecycle.finish_delete,
    Action.ACCEPT_REQUEST: request_create.accept,
    Action.ADMIT_REQUEST: admission.admit,
    Action.EXPIRE_REQUEST: admission.expire,
    Action.REPAIR_REQUEST: request_lifecycle.repair,
    Action.END_RUN: request_lifecycle.end_run,
    Action.SUSPEND_REQUEST: request_lifecycle.suspend,
    Action.REMOVE_REQUEST: request_create.finish_delete,
    Action.CHANGE_CAPACITY: _change_capacity,
    Action.FIRE_ENTRY: timeline_firing.fire,
    Action.END_ENTRY: timeline_firing.end,
}
