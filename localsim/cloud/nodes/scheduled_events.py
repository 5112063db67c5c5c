"""What a scenario plans for a node: the end of its spot life, and maintenance."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from localsim.cloud.db.agenda import Action
from localsim.cloud.model.nodes import NODE_TRANSITIONS, Node, NodeEvent
from localsim.cloud.nodes import maintenance, node_loss
from localsim.cloud.nodes.maintenance import MaintenanceAnnouncement
from localsim.cloud.scenario.distributions import draw_amount
from localsim.cloud.state.state import State

_ANNOUNCED = {
    "notice_s": "starts_in_s",
    "window_s": "window_s",
    "type": "type",
    "can_reschedule": "can_reschedule",
}
"""Key of a scenario's maintenance -> field of an Announcement."""


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


def end_spot_life(state: State, name: str, now_s: float) -> None:
    """Preempt a spot node; ignored when it is being preempted or deleted already."""
    node = state.nodes.get(name)
    is_going = state.agenda.has(Action.PREEMPT_NODE, name)
    if not is_going and NodeEvent.PREEMPT in NODE_TRANSITIONS[node.state]:
        node_loss.preempt(state, name, None, now_s)


def announce_maintenance(state: State, name: str, now_s: float) -> None:
    """Announce the scenario's maintenance of a READY node; other nodes have none then."""
    node = state.nodes.get(name)
    plan = _plan(state, node)
    if plan is None or NodeEvent.REPAIR not in NODE_TRANSITIONS[node.state]:
        return
    asked = {field: plan[key] for key, field in _ANNOUNCED.items() if key in plan}
    maintenance.announce(state, name, MaintenanceAnnouncement(**asked), now_s)


def _plan(state: State, node: Node) -> Mapping[str, Any] | None:
    """The first maintenance entry of the scenario whose pattern matches the node's id, or None."""
    plans = state.scenario.maintenance
    return next((each for each in plans if fnmatchcase(node.node_id, each["nodes"])), None)
