"""What befalls workers that are up, by faults, and what the service notices of it after a while.

The service sees that a worker does not answer, and says so by the node's health and symptoms. It
has no word for a full disk, a slow worker, or one that refuses SSH: a node with those is HEALTHY.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from localsim.cloud.db.agenda import Action
from localsim.cloud.model.events import WorkersAfflicted
from localsim.cloud.model.nodes import Health, Node, NodeState, Symptom
from localsim.cloud.scenario.conditions import Standing
from localsim.cloud.scenario.faults import Trouble, WorkerTrouble
from localsim.cloud.state.state import State

Troubles = Mapping[int, tuple[WorkerTrouble, ...]]
"""By worker; those without any are not in it."""

# Which SymptomType the service has for which cause is assumed, and so are the sentences.
_NOTICED: Mapping[Trouble, tuple[str, str]] = {
    Trouble.KILLED: ("MESH_BUILD_FAIL", "Worker {} is down: its machine has failed."),
    Trouble.CUT_OFF: ("EXECUTE_TIMED_OUT", "Worker {} cannot be reached over the network."),
    Trouble.HANGS: ("EXECUTE_TIMED_OUT", "Worker {} is up but does not respond."),
}
"""The worst first: SymptomType and what is said of the worker."""


def of_node(state: State, node: Node) -> Troubles:
    """What its workers suffer from now."""
    killed = [WorkerTrouble(node.node_id, worker, Trouble.KILLED) for worker in node.killed]
    standing = (each for each in _standing(state.conditions.standing) if _strikes(each, node))
    lasting = [each for each in standing if each.trouble is not Trouble.KILLED]
    found: dict[int, tuple[WorkerTrouble, ...]] = {}
    for each in (*killed, *lasting):
        found[each.worker] = (*found.get(each.worker, ()), each)
    return found


def follow(state: State, before: Iterable[Standing], now_s: float) -> None:
    """Let the nodes feel which faults have come, and which have gone, since `before`."""
    old, new = Counter(_standing(before)), Counter(_standing(state.conditions.standing))
    come, gone = new - old, old - new
    if not come and not gone:
        return
    for node in list(state.nodes):
        struck = {each for each in come if _strikes(each, node)}
        if struck:
            state.conditions.strike(struck.__contains__)
        if struck or any(_strikes(each, node) for each in gone):
            felt = state.nodes.put(_killed_by(struck, node))
            state.events.append(WorkersAfflicted(felt))
            plan_notice(state, felt, now_s)


def lose(state: State, name: str, worker: int, now_s: float) -> None:
    """A worker of a node that is up has failed, as if a fault had killed it."""
    node = state.nodes.find(name)
    if node is None or node.state != NodeState.READY or worker in node.killed:
        return
    lost = state.nodes.put(replace(node, killed=tuple(sorted({*node.killed, worker}))))
    state.events.append(WorkersAfflicted(lost))
    plan_notice(state, lost, now_s)


def strikes_at_boot(fault: WorkerTrouble, node: Node) -> bool:
    """Whether a worker of a node that boots now will suffer from the fault."""
    kills_nobody = fault.trouble is Trouble.KILLED and node.state != NodeState.CREATING
    return _strikes(fault, node) and not kills_nobody


def strike_new(state: State, node: Node) -> None:
    """Let the faults that kill workers strike a node that is up for the first time."""
    struck = _killed_by(_standing(state.conditions.standing), node)
    if struck.killed:
        state.events.append(WorkersAfflicted(state.nodes.put(struck)))


def plan_notice(state: State, node: Node, now_s: float) -> None:
    """Let the service look at a node's workers, where there is something to be seen."""
    if node.health is Health.TIMEOUT or of_node(state, state.nodes.get(node.name)):
        due_s = now_s + state.scenario.detection_delay_s
        state.agenda.add(due_s, Action.NOTICE_TROUBLE, node.name)


def notice(state: State, name: str, now_s: float) -> None:
    """The service looks at the workers of a READY node and tells what it sees."""
    node = state.nodes.find(name)
    if node is None or node.state != NodeState.READY:
        return
    seen = _seen(of_node(state, node))
    if seen:
        new = [each for each in seen if each.details not in node.health_description]
        symptoms = (*node.symptoms, *(replace(each, create_time_s=now_s) for each in new))
        said = " ".join(each.details for each in seen)
        changes = {"health": Health.TIMEOUT, "health_description": said, "symptoms": symptoms}
        state.nodes.put(replace(node, **changes))  # type: ignore[arg-type]
    elif node.health is Health.TIMEOUT:
        state.nodes.put(replace(node, health=Health.HEALTHY, health_description=""))


def _seen(troubles: Troubles) -> list[Symptom]:
    """The worst of each worker, as a symptom."""
    found = []
    for worker, suffered in sorted(troubles.items()):
        kinds = {each.trouble for each in suffered}
        worst = next((trouble for trouble in _NOTICED if trouble in kinds), None)
        if worst is not None:
            kind, said = _NOTICED[worst]
            found.append(Symptom(0.0, kind, said.format(worker), str(worker)))
    return found


def _killed_by(faults: Iterable[WorkerTrouble], node: Node) -> Node:
    """The node without the workers that these faults kill; one that is down loses none."""
    if node.state != NodeState.READY:
        return node
    fatal = (each for each in faults if each.trouble is Trouble.KILLED and _strikes(each, node))
    return replace(node, killed=tuple(sorted({*node.killed, *(each.worker for each in fatal)})))


def _strikes(fault: object, node: Node) -> bool:
    return (
        isinstance(fault, WorkerTrouble)
        and fault.worker < len(node.addresses)
        and fnmatchcase(node.node_id, fault.node)
    )


def _standing(standing: Iterable[Standing]) -> list[WorkerTrouble]:
    return [each.fault for each in standing if isinstance(each.fault, WorkerTrouble)]
