"""The faults of workers that are up, and what the service detects of them after a while.

The service sees that a worker does not answer, and says so by the node's health and symptoms. It
has no word for a full disk, a slow worker, or one that refuses SSH: a node with those is HEALTHY.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from localsim.rules.db.agenda import Action
from localsim.rules.model.events import ApplyWorkerFaults
from localsim.rules.model.nodes import Health, Node, NodeState, Symptom
from localsim.rules.scenario.active_scenario import ActiveFault
from localsim.rules.scenario.fault_types import WorkerFault, WorkerFaultKind
from localsim.rules.state.state import State

FaultsByWorker = Mapping[int, tuple[WorkerFault, ...]]
"""By worker; those without any are not in it."""

# Which SymptomType the service has for which cause is assumed, and so are the sentences.
SYMPTOMS: Mapping[WorkerFaultKind, tuple[str, str]] = {
    WorkerFaultKind.KILLED: ("MESH_BUILD_FAIL", "Worker {} is down: its machine has failed."),
    WorkerFaultKind.CUT_OFF: ("EXECUTE_TIMED_OUT", "Worker {} cannot be reached over the network."),
    WorkerFaultKind.HANGS: ("EXECUTE_TIMED_OUT", "Worker {} is up but does not respond."),
}
"""The worst first: SymptomType and what is said of the worker."""


def faults_of_node(state: State, node: Node) -> FaultsByWorker:
    """The faults that the workers of a node suffer from now."""
    killed = [WorkerFault(node.node_id, worker, WorkerFaultKind.KILLED) for worker in node.killed]
    standing = (each for each in _worker_faults(state.conditions.standing) if _strikes(each, node))
    lasting = [each for each in standing if each.trouble is not WorkerFaultKind.KILLED]
    by_worker: dict[int, tuple[WorkerFault, ...]] = {}
    for each in (*killed, *lasting):
        by_worker[each.worker] = (*by_worker.get(each.worker, ()), each)
    return by_worker


def apply_fault_changes(state: State, before: Iterable[ActiveFault], now_s: float) -> None:
    """Apply the faults that were added, and end those removed, since `before`."""
    old, new = Counter(_worker_faults(before)), Counter(_worker_faults(state.conditions.standing))
    come, gone = new - old, old - new
    if not come and not gone:
        return
    for node in list(state.nodes):
        struck = {each for each in come if _strikes(each, node)}
        if struck:
            state.conditions.strike(struck.__contains__)
        if struck or any(_strikes(each, node) for each in gone):
            felt = state.nodes.put(_without_killed(struck, node))
            state.events.append(ApplyWorkerFaults(felt))
            schedule_detection(state, felt, now_s)


def mark_worker_lost(state: State, name: str, worker: int, now_s: float) -> None:
    """Record that a worker of a READY node has failed, as if a fault had killed it."""
    node = state.nodes.find(name)
    if node is None or node.state != NodeState.READY or worker in node.killed:
        return
    lost = state.nodes.put(replace(node, killed=tuple(sorted({*node.killed, worker}))))
    state.events.append(ApplyWorkerFaults(lost))
    schedule_detection(state, lost, now_s)


def strikes_at_boot(fault: WorkerFault, node: Node) -> bool:
    """Whether a worker of a node that boots now will suffer from the fault."""
    kills_nobody = fault.trouble is WorkerFaultKind.KILLED and node.state != NodeState.CREATING
    return _strikes(fault, node) and not kills_nobody


def strike_new_node(state: State, node: Node) -> None:
    """Apply the faults that kill workers to a node that is up for the first time."""
    struck = _without_killed(_worker_faults(state.conditions.standing), node)
    if struck.killed:
        state.events.append(ApplyWorkerFaults(state.nodes.put(struck)))


def schedule_detection(state: State, node: Node, now_s: float) -> None:
    """Schedule `detect_faults` for a node that has faults or health TIMEOUT."""
    if node.health is Health.TIMEOUT or faults_of_node(state, state.nodes.get(node.name)):
        due_s = now_s + state.scenario.detection_delay_s
        state.agenda.add(due_s, Action.NOTICE_TROUBLE, node.name)


def detect_faults(state: State, name: str, now_s: float) -> None:
    """Update health, description and symptoms of a READY node from its workers' faults."""
    node = state.nodes.find(name)
    if node is None or node.state != NodeState.READY:
        return
    seen = _noticeable(faults_of_node(state, node))
    if seen:
        before = node.noticed if node.health is Health.TIMEOUT else ()
        new = [
            _symptom(worker, fault, now_s)
            for worker, fault in seen
            if (worker, fault) not in before
        ]
        sentences = [SYMPTOMS[fault][1].format(worker) for worker, fault in seen]
        changed = replace(
            node,
            health=Health.TIMEOUT,
            health_description=" ".join(sentences),
            symptoms=(*node.symptoms, *new),
            noticed=tuple(seen),
        )
        state.nodes.put(changed)
    elif node.health is Health.TIMEOUT:
        state.nodes.put(replace(node, health=Health.HEALTHY, health_description=""))


def _noticeable(faults: FaultsByWorker) -> list[tuple[int, WorkerFaultKind]]:
    """The worst fault of each worker that the service has a symptom for, by worker."""
    seen = []
    for worker, suffered in sorted(faults.items()):
        kinds = {fault.trouble for fault in suffered}
        seen += [(worker, worst) for worst in [kind for kind in SYMPTOMS if kind in kinds][:1]]
    return seen


def _symptom(worker: int, fault: WorkerFaultKind, now_s: float) -> Symptom:
    symptom_type, sentence = SYMPTOMS[fault]
    return Symptom(now_s, symptom_type, sentence.format(worker), str(worker))


def _without_killed(faults: Iterable[WorkerFault], node: Node) -> Node:
    """The node with the workers marked as killed that these faults kill, if it is READY."""
    if node.state != NodeState.READY:
        return node
    fatal = (
        each for each in faults if each.trouble is WorkerFaultKind.KILLED and _strikes(each, node)
    )
    return replace(node, killed=tuple(sorted({*node.killed, *(each.worker for each in fatal)})))


def _strikes(fault: object, node: Node) -> bool:
    return (
        isinstance(fault, WorkerFault)
        and fault.worker < len(node.addresses)
        and fnmatchcase(node.node_id, fault.node)
    )


def _worker_faults(standing: Iterable[ActiveFault]) -> list[WorkerFault]:
    return [each.fault for each in standing if isinstance(each.fault, WorkerFault)]
