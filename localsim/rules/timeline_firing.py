"""What arms an entry of the timeline, what lets its moment come, and what it then does."""

from collections.abc import Iterable, Sequence

from localsim.rules.db.agenda import Action
from localsim.rules.model.nodes import Node, NodeEvent
from localsim.rules.nodes import node_loss
from localsim.rules.scenario import timeline_texts
from localsim.rules.scenario.active_scenario import ActiveFault, texts_of
from localsim.rules.scenario.incidents import IncidentKind
from localsim.rules.scenario.timeline import EntryProgress
from localsim.rules.scenario.timeline_types import (
    EntryAction,
    EntryState,
    FaultBegin,
    FaultEnd,
    Preemption,
    ReadyTrigger,
    RequestPhase,
    RequestTrigger,
    RequestVerb,
    TimelineEntry,
    TimeTrigger,
)
from localsim.rules.state import node_faults
from localsim.rules.state.state import State
from localsim.rules.supply import capacity

SUBJECT = "timeline:"
"""Before the name of an entry, the subject of what is on the agenda for it."""


def begin(state: State, now_s: float) -> None:
    """Put the scenario's timeline in the place of any other; only within a change."""
    for name in state.timeline.names:
        state.agenda.cancel(SUBJECT + name)
    state.timeline.clear()
    add(state, timeline_texts.parse(state.scenario.timeline), now_s)


def add(state: State, entries: Iterable[TimelineEntry], now_s: float) -> None:
    """Add entries, and arm those that follow no other; only within a change."""
    for entry in entries:
        progress = state.timeline.put(EntryProgress(entry))
        if not entry.parent:
            _arm(state, progress, state.conditions.start_s, now_s)


def see_request(
    state: State,
    verb: RequestVerb,
    target: str,
    caller: str,
    *,
    has_ended: bool,
    skip: Iterable[str],
) -> list[str]:
    """Count a request for `bucket/name`, and return the entries whose moment is in it.

    It counts when it begins, or, with `has_ended`, for those that wait for its end. An entry whose
    moment is in it does not count it: `come` does. Entries of `skip` are passed over.
    """
    met = []
    for progress in state.timeline.waiting_for_requests():
        trigger, name = progress.entry.trigger, progress.entry.name
        assert isinstance(trigger, RequestTrigger)
        waits_for_end = trigger.phase is RequestPhase.AFTER
        if name in skip or waits_for_end is not has_ended:
            continue
        if trigger.concerns(verb, target, caller):
            if progress.count + 1 >= trigger.nth:
                met.append(name)
            else:
                state.timeline.change(name, count=progress.count + 1)
    return met


def see_ready(state: State, node: Node, now_s: float) -> None:
    """Note and count a node that has become READY; only within a change."""
    state.incidents.add(IncidentKind.READY, node.node_id, now_s)
    for progress in state.timeline:
        trigger = progress.entry.trigger
        if progress.waits and isinstance(trigger, ReadyTrigger) and trigger.concerns(node.node_id):
            counted = state.timeline.change(progress.entry.name, count=progress.count + 1)
            if counted.count >= trigger.nth:
                come(state, progress.entry.name, now_s + trigger.after_s)


def come(state: State, name: str, due_s: float, request: int = 0) -> None:
    """Let an entry happen at that time, unless it no longer waits; only within a change."""
    progress = state.timeline.find(name)
    if progress is not None and progress.waits:
        state.timeline.change(name, has_come=True, request=request)
        state.agenda.add(due_s, Action.FIRE_ENTRY, SUBJECT + name)


def fire(state: State, subject: str, now_s: float) -> None:
    """Carry out an entry's actions, and arm the entries that follow it."""
    name = subject.removeprefix(SUBJECT)
    progress = state.timeline.find(name)
    if progress is None or progress.state is EntryState.DONE:
        return
    problems = filter(None, [_act(state, action, now_s) for action in progress.entry.actions])
    state.timeline.change(
        name, state=EntryState.DONE, has_come=True, fired_s=now_s, problem="; ".join(problems)
    )
    if progress.entry.for_s is not None:
        state.agenda.add(now_s + progress.entry.for_s, Action.END_ENTRY, subject)
    for following in state.timeline.following(name):
        _arm(state, following, now_s, now_s)


def end(state: State, subject: str, now_s: float) -> None:
    """End the faults that an entry began."""
    progress = state.timeline.find(subject.removeprefix(SUBJECT))
    for action in () if progress is None else progress.entry.actions:
        if isinstance(action, FaultBegin):
            _end_fault(state, action.fault, now_s)


def _arm(state: State, progress: EntryProgress, start_s: float, now_s: float) -> None:
    """Let an entry wait for its moment from now on; its times count from `start_s`."""
    name, trigger = progress.entry.name, progress.entry.trigger
    state.timeline.change(name, state=EntryState.ARMED, armed_s=now_s)
    if isinstance(trigger, TimeTrigger):
        come(state, name, max(now_s, start_s + trigger.after_s))


def _act(state: State, action: EntryAction, now_s: float) -> str:
    """Carry out an action; return why it cannot be carried out, or nothing."""
    if isinstance(action, Preemption):
        return _preempt(state, action, now_s)
    if isinstance(action, FaultBegin):
        before = state.conditions.standing
        state.conditions.add_fault(action.fault)
        follow_faults(state, before, now_s)
    if isinstance(action, FaultEnd):
        return _end_fault(state, action.fault, now_s)
    return ""


def _preempt(state: State, action: Preemption, now_s: float) -> str:
    nodes = [node for node in state.nodes if ReadyTrigger(action.node, 1).concerns(node.node_id)]
    ready = [node for node in nodes if node.allows(NodeEvent.PREEMPT)]
    for node in ready:
        if not state.agenda.has(Action.PREEMPT_NODE, node.name):
            node_loss.preempt(state, node.name, action.notice_s, now_s)
        elif action.notice_s is not None:  # it has notice already, of a later end
            node_loss.shorten_notice(state, node, action.notice_s, now_s)
    return "" if ready else f"no node {action.node} is READY"


def _end_fault(state: State, text: str, now_s: float) -> str:
    before = state.conditions.standing
    if not state.conditions.end_fault(text):
        return f"there is no fault {text}"
    follow_faults(state, before, now_s)
    return ""


def follow_faults(state: State, before: Sequence[ActiveFault], now_s: float) -> None:
    """Note which faults began and ended since `before`, and let workers and capacity follow."""
    state.incidents.add_fault_changes(texts_of(before), texts_of(state.conditions.standing), now_s)
    node_faults.apply_fault_changes(state, before, now_s)
    capacity.schedule_offers(state, now_s)
