"""What is done when an entry of the agenda falls due."""

from localsim.cloud import node_life, request_life
from localsim.cloud.agenda import Action, Entry
from localsim.cloud.queued_resources import Initiator
from localsim.cloud.state import State


def apply(state: State, entry: Entry) -> None:
    """Do it as of the moment it was due, however late the tick is."""
    _ACTIONS[entry.action](state, entry.subject, entry.due_s)
    if state.scenario.capacity:
        request_life.admit_waiting(state, entry.due_s)


def _preempt(state: State, name: str, now_s: float) -> None:
    lost = node_life.preempted(state, name)
    if lost is not None:
        request_life.node_is_lost(state, lost, Initiator.SERVICE, now_s)


_ACTIONS = {
    Action.PROVISION_NODE: node_life.provision,
    Action.PREEMPT_NODE: _preempt,
    Action.REMOVE_NODE: node_life.removed,
    Action.ACCEPT_REQUEST: request_life.accept,
    Action.ADMIT_REQUEST: request_life.admit,
    Action.SUSPEND_REQUEST: request_life.suspend,
    Action.REMOVE_REQUEST: request_life.removed,
}
