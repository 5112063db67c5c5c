"""What Cloud TPU does by itself, in as few words as possible: half of the histories' oracle.

Written from the API's rules, not from the simulator: one zone, nodes of one or four workers,
requests of one node or two, capacity per type, one quota, workers that boot when they are asked to.
Operations are numbers; an outcome is None (running), OK or the code of an error.
"""

from dataclasses import dataclass, field
from typing import TypeVar

OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS = 0, 1, 3, 4, 5, 6
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED = 8, 9, 10

SMALL, LARGE = "v5litepod-4", "v5litepod-16"
CHIPS = 4
ACCEPTANCE_S, PROVISIONING_S, DELETION_S, SUSPENSION_S, UPDATE_S = 3.0, 10.0, 2.0, 4.0, 1.0
QUOTA_CHIPS = 12
"""Of small nodes that are not spot; the others have no limit."""


Found = TypeVar("Found")
Tier = tuple[str, bool]
"""Accelerator type, and whether it is spot."""


class RefusedError(Exception):
    """The code that the client gets."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Node:
    tier: Tier
    owner: str = ""
    state: str = "CREATING"
    has_slice: bool = False
    operation: int | None = None
    label: str = ""
    update: tuple[int, str] | None = None


@dataclass
class Request:
    tier: Tier
    nodes: tuple[str, ...]
    created_s: float
    state: str = "ACCEPTED"
    initiator: str = "SERVICE"
    failure: int | None = None
    holds_quota: bool = False
    operation: int | None = None


@dataclass
class Service:
    now_s: float
    capacity: dict[str, int] = field(default_factory=lambda: {SMALL: 2, LARGE: 1})
    nodes: dict[str, Node] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    outcomes: list[int | None] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    sent: dict[tuple[str, str, str], int] = field(default_factory=dict)
    promises: list[tuple[float, int, str, str]] = field(default_factory=list)
    booting: list[str] = field(default_factory=list)
    promised: int = 0

    def preempt(self, name: str, notice_s: float) -> None:
        require(found(self.nodes, name).state == "READY", FAILED_PRECONDITION)
        noticed = [each for each in self.promises if each[2:] == ("preempt", name)]
        require(not noticed, FAILED_PRECONDITION)
        self.promise(self.now_s + notice_s, "preempt", name)

    def set_capacity(self, kind: str, slices: int) -> None:
        self.capacity[kind] = slices
        self._offer(self.now_s)

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        while self.promises and min(self.promises)[0] <= self.now_s:
            due_s, _, action, name = entry = min(self.promises)
            self.promises.remove(entry)
            getattr(self, "_" + action.replace(" ", "_"))(name, due_s)
            if action in ("provision", "preempt", "remove node"):
                self._offer(due_s)
        for name in self.booting:
            self._boot(name)
        self.booting.clear()

    def _provision(self, name: str, now_s: float) -> None:
        node = self.nodes[name]
        if node.owner and self._free(node.tier) < 0:  # taken away since it was promised
            del self.nodes[name]
            self.lose_node(node, "SERVICE", now_s, RESOURCE_EXHAUSTED)
        elif node.has_slice or self._free(node.tier) > 0:
            node.has_slice = True
            self.booting.append(name)
        else:
            self.give_up(name, node, RESOURCE_EXHAUSTED)

    def _boot(self, name: str) -> None:
        node = self.nodes[name]
        node.state = "READY"
        self.end(node.operation, OK)
        node.operation = None
        owner = self.requests.get(node.owner)
        states = [self.nodes[each].state for each in self.owned(node.owner)]
        if owner and owner.state == "PROVISIONING" and states == ["READY"] * len(owner.nodes):
            owner.state, owner.initiator = "ACTIVE", "SERVICE"

    def _update(self, name: str, now_s: float) -> None:
        node = self.nodes[name]
        operation, label = node.update
        node.update = None
        self.end(operation, OK if node.state == "READY" else INVALID_ARGUMENT)
        node.label = label if node.state == "READY" else node.label

    def _preempt(self, name: str, now_s: float) -> None:
        node = self.nodes[name]
        if node.state in ("READY", "RESTARTING"):
            self.booting = [each for each in self.booting if each != name]
            node.state, node.has_slice = "PREEMPTED", False
            owner = self.requests.get(node.owner)
            if owner and owner.state == "ACTIVE" and len(owner.nodes) > 1:
                self.promise(now_s + SUSPENSION_S, "repair", node.owner)
            else:
                self.lose_node(node, "SERVICE", now_s)

    def _remove_node(self, name: str, now_s: float) -> None:
        self.end(self.nodes.pop(name).operation, OK)

    def _remove_request(self, name: str, now_s: float) -> None:
        self.end(self.requests.pop(name).operation, OK)

    def _suspend(self, name: str, now_s: float) -> None:
        self.requests[name].state = "SUSPENDED"

    def _expire(self, name: str, now_s: float) -> None:
        request = self.requests[name]
        is_queued = request.state in ("ACCEPTED", "WAITING_FOR_RESOURCES")
        if is_queued and not request.holds_quota:
            self._fail(request, name, DEADLINE_EXCEEDED)

    def _admit(self, name: str, now_s: float) -> None:
        request = self.requests[name]
        self.end(request.operation, OK)
        request.operation = None
        is_granted = self._free(request.tier) >= len(request.nodes)
        if not is_granted and request.state == "WAITING_FOR_RESOURCES":
            return
        if not request.holds_quota and not self.has_quota(request.tier, len(request.nodes)):
            self._fail(request, name, RESOURCE_EXHAUSTED)
        elif not is_granted:
            request.state, request.initiator = "WAITING_FOR_RESOURCES", "SERVICE"
        elif self.nodes.keys() & set(request.nodes):
            self._fail(request, name, ALREADY_EXISTS)
        else:
            request.state, request.initiator, request.holds_quota = "PROVISIONING", "SERVICE", True
            for each in request.nodes:
                self.nodes[each] = Node(request.tier, name, has_slice=True)
                self.promise(now_s + PROVISIONING_S, "provision", each)

    def _repair(self, name: str, now_s: float) -> None:
        """A multislice gets its lost nodes again, where there is capacity; the others restart."""
        owned = {each: self.nodes[each] for each in sorted(self.owned(name))}
        lost = {each: node for each, node in owned.items() if node.state == "PREEMPTED"}
        renewed = False
        for each, node in lost.items():
            if self.requests[name].state == "ACTIVE" and self._free(node.tier) > 0:
                self.withdraw(each)
                self.nodes[each] = Node(node.tier, name, has_slice=True, label=node.label)
                self.promise(now_s + PROVISIONING_S, "provision", each)
                renewed = True
        for each, node in owned.items():
            if renewed and node.state == "READY":
                node.state = "RESTARTING"
                self.booting.append(each)

    # Rules that several of them share

    def _offer(self, now_s: float) -> None:
        """Freed capacity goes to repairs, then to those who wait, the oldest first."""
        planned = [name for _, _, action, name in self.promises if action == "repair"]
        for name in sorted(self.requests.keys() - set(planned)):
            if len(self.requests[name].nodes) > 1:
                self._repair(name, now_s)
        waiting = [
            (request.created_s, name)
            for name, request in self.requests.items()
            if request.state == "WAITING_FOR_RESOURCES"
        ]
        for _, name in sorted(waiting):
            self._admit(name, now_s)

    def lose_node(self, node: Node, initiator: str, now_s: float, code: int = CANCELLED) -> None:
        owner = self.requests.get(node.owner)
        if owner and owner.state == "ACTIVE":
            owner.state, owner.initiator = "SUSPENDING", initiator
            self.promise(now_s + SUSPENSION_S, "suspend", node.owner)
        elif owner and owner.state == "PROVISIONING":
            self._fail(owner, node.owner, code, initiator)

    def _fail(self, request: Request, name: str, code: int, initiator: str = "SERVICE") -> None:
        self.withdraw(name)
        request.state, request.initiator, request.failure = "FAILED", initiator, code
        for each in self.owned(name):
            if self.nodes[each].state != "DELETING":
                self.end(self.nodes[each].update and self.nodes[each].update[0], code)
                self.give_up(each, self.nodes[each], code)

    def delete_owned(self, owner: str, now_s: float) -> None:
        for name in self.owned(owner):
            if self.nodes[name].state != "DELETING":
                self.begin_deletion(name, now_s)

    def begin_deletion(self, name: str, now_s: float, key: tuple = ()) -> int:
        node, operation = self.nodes[name], self.begin(name, key)
        self.end(node.operation, CANCELLED)
        self.end(node.update and node.update[0], CANCELLED)
        node.state, node.operation, node.update = "DELETING", operation, None
        self.withdraw(name)
        self.promise(now_s + DELETION_S, "remove node", name)
        return operation

    def give_up(self, name: str, node: Node, code: int) -> None:
        self.withdraw(name)
        self.end(node.operation, code)
        del self.nodes[name]
        self.booting = [each for each in self.booting if each != name]

    def has_quota(self, tier: Tier, count: int = 1) -> bool:
        """Preempted nodes, failed and suspended requests hold theirs until they are deleted."""
        held = sum(not node.owner and node.tier == tier for node in self.nodes.values())
        held += sum(
            len(request.nodes)
            for request in self.requests.values()
            if request.holds_quota and request.tier == tier
        )
        return tier != (SMALL, False) or CHIPS * (held + count) <= QUOTA_CHIPS

    def _free(self, tier: Tier) -> int:
        kinds = [node.tier[0] for node in self.nodes.values() if node.has_slice]
        return self.capacity[tier[0]] - kinds.count(tier[0])

    def owned(self, owner: str) -> list[str]:
        return [name for name, node in self.nodes.items() if node.owner == owner]

    def begin(self, target: str, key: tuple = ()) -> int:
        self.outcomes.append(None)
        self.targets.append(target)
        if key and key[-1]:
            self.sent[key] = len(self.outcomes) - 1
        return len(self.outcomes) - 1

    def end(self, operation: int | None, outcome: int) -> None:
        if operation is not None:
            self.outcomes[operation] = outcome

    def promise(self, due_s: float, action: str, name: str) -> None:
        self.promised += 1
        self.promises.append((due_s, self.promised, action, name))

    def withdraw(self, name: str) -> None:
        self.promises = [each for each in self.promises if each[3] != name]


def require(condition: object, code: int) -> None:
    if not condition:
        raise RefusedError(code)


def found(resources: dict[str, Found], name: str) -> Found:
    require(name in resources, NOT_FOUND)
    return resources[name]
