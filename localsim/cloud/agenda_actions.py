"""What is done when an entry of the agenda falls due."""

from collections.abc import Callable, Mapping
from functools import partial

from localsim.cloud.db.agenda import Action, AgendaEntry
from localsim.cloud.model.nodes import Node, NodeEvent
from localsim.cloud.model.queued_resources import Initiator
from localsim.cloud.nodes import (
    maintenance,
    node_lifecycle,
    node_loss,
    node_update,
    scheduled_events,
)
from localsim.cloud.requests import admission, request_create, request_lifecycle
from localsim.cloud.state import node_faults
from localsim.cloud.state.state import State
from localsim.cloud.supply import capacity

FREES_CAPACITY = frozenset(
    {
        Action.REMOVE_NODE,
        Action.PREEMPT_NODE,
        Action.EXPIRE_NODE,
        Action.PROVISION_NODE,
        Action.CHANGE_CAPACITY,
    }
)
"""After these there may be capacity that somebody waits for."""


def apply_entry(state: State, entry: AgendaEntry) -> None:
    """Do what an entry promises, as of its due time.

    An entry whose node or request does not exist any more is dropped.
    """
    subject = entry.subject
    exists = state.nodes.find(subject) or state.requests.find(subject)
    if not exists and subject != capacity.TIMELINE:
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


def _change_capacity(_state: State, _subject: str, _now_s: float) -> None:
    """Do nothing here: `apply_entry` offers the new capacity afterwards."""


_ACTIONS: Mapping[Action, Callable[[State, str, float], object]] = {
    Action.PROVISION_NODE: _provision,
    Action.PREEMPT_NODE: partial(_lose, NodeEvent.PREEMPT),
    Action.EXPIRE_NODE: partial(_lose, NodeEvent.EXPIRE),
    Action.LOSE_WORKER: node_loss.lose_worker,
    Action.NOTICE_TROUBLE: node_faults.detect_faults,
    Action.END_SPOT_LIFE: scheduled_events.end_spot_life,
    Action.ANNOUNCE_MAINTENANCE: scheduled_events.announce_maintenance,
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
}
