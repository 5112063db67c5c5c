"""The Cloud TPU API of a history: requests that become slices, are taken away, and cost money."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from soak.checkpoints.fault_plan import Faults
from soak.jobs.world.job_hosts import Host
from soak.jobs.world.virtual_time import EPOCH_S, Machine, Universe
from tpuctl.errors import ConflictError, NotFoundError, PreconditionError
from tpuctl.models.node import Node, NodeSpec, Worker
from tpuctl.models.operation import Operation
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec

DONE = Operation("operations/1", done=True)
USD_PER_HOUR = 19.2
"""Of one slice."""
ACCEPTANCE_S = 0.5
SUSPENSION_S = 2.0
DELETION_S = 3.0
REMEMBERED_S = 3600.0
"""For how long a request id that comes again is answered as before."""
LABEL = "tpuctl-job"


@dataclass
class Slice:
    """One node with its hosts."""

    node: Node
    hosts: list[Host] = field(default_factory=list)
    ready_s: float | None = None
    free_s: float | None = None
    """When it stopped to cost anything."""

    def usd(self, now_s: float, since_s: float = 0.0) -> float:
        """What it has cost since a moment."""
        if self.ready_s is None:
            return 0.0
        until_s = now_s if self.free_s is None else self.free_s
        return max(0.0, until_s - max(self.ready_s, since_s)) / 3600.0 * USD_PER_HOUR


@dataclass
class Request:
    """One queued resource."""

    spec: QueuedResourceSpec
    state: str
    initiator: str = "USER"

    @property
    def node_names(self) -> tuple[str, ...]:
        if self.spec.node_count is None:
            return (self.spec.node.name,)
        return tuple(f"{self.spec.node.name}-{i}" for i in range(self.spec.node_count))


class Cloud:
    """What the service has; each call happens at once."""

    def __init__(self, universe: Universe, workers: int, provisioning_s: float) -> None:
        self.universe = universe
        self.workers = workers
        self.provisioning_s = provisioning_s
        self.slices: dict[str, Slice] = {}
        self.past: list[Slice] = []
        self.requests: dict[str, Request] = {}
        self.sent: dict[str, float] = {}
        self.at_once = 1
        """How many requests a job may have side by side."""
        self.created: list[str] = []
        self.out_until_s: dict[str, float] = {}
        """Zones without capacity."""
        self.wrong: list[str] = []
        """What must never happen."""
        self.on_ready: Callable[[Slice], None] = lambda _slice: None
        self._node_ids = 0

    # ------------------------------------------------------------------ the API

    def get_node(self, name: str) -> Node:
        return self._slice(name).node

    def update_node(self, name: str, changes: Mapping[str, Any]) -> Operation:
        found = self._slice(name)
        if found.node.state != "READY":
            raise PreconditionError(f"{name} is {found.node.state}")
        found.node = replace(found.node, **changes)
        return DONE

    def host_keys(self, name: str) -> list[str]:
        return [host.key for host in self._slice(name).hosts]

    def get_request(self, name: str) -> QueuedResource:
        found, spec = self._request(name), self._request(name).spec
        return QueuedResource(
            name, spec.node.zone, found.state, found.initiator, found.node_names,
            spec.node.accelerator_type, spec.node.runtime_version, spec.node.provisioning, 0.0,
        )  # fmt: skip

    def list_requests(self) -> list[QueuedResource]:
        return [self.get_request(name) for name in self.requests]

    def create_request(self, spec: QueuedResourceSpec, request_id: str) -> Operation:
        now_s = self.universe.now_s
        if now_s - self.sent.get(request_id, float("-inf")) < REMEMBERED_S:
            return DONE
        if spec.name in self.requests:
            raise ConflictError(f"{spec.name} exists")
        self._look_for_doubles(spec)
        self.sent[request_id] = now_s
        self.created.append(spec.name)
        request = self.requests[spec.name] = Request(spec, "ACCEPTED")
        self.universe.after(ACCEPTANCE_S, lambda: self._seek(request))
        return DONE

    def delete_request(self, name: str) -> Operation:
        request = self._request(name)
        if request.state == "PROVISIONING":
            raise PreconditionError(f"{name} is PROVISIONING")
        if request.state != "DELETING":
            request.state = "DELETING"
            for node in request.node_names:
                self.end_node(node, "DELETING")
            self.universe.after(DELETION_S, lambda: self._vanish(request))
        return DONE

    # ------------------------------------------------------------------ what befalls slices

    def add_node(self, spec: NodeSpec, queued_resource: str | None) -> Slice:
        """A slice with hosts that are not up yet."""
        self._node_ids += 1
        hosts = [Host(self.universe, f"{spec.name}#{self._node_ids}.{i}") for i in
                 range(self.workers)]  # fmt: skip
        workers = tuple(Worker(i, host.address) for i, host in enumerate(hosts))
        node = Node(
            spec.name, spec.zone, self._node_ids, spec.accelerator_type, spec.runtime_version,
            "CREATING", spec.provisioning, EPOCH_S, queued_resource=queued_resource,
            workers=workers, labels=spec.labels, metadata=spec.metadata,
        )  # fmt: skip
        self.slices[spec.name] = Slice(node, hosts)
        return self.slices[spec.name]

    def make_ready(self, found: Slice) -> None:
        found.node = replace(found.node, state="READY")
        found.ready_s = self.universe.now_s
        for host in found.hosts:
            host.boot()
        self.on_ready(found)

    def preempt(self, name: str) -> None:
        """Without another word: its hosts go, and it costs nothing any more; its sisters stay."""
        if name not in self.slices or self.slices[name].node.state != "READY":
            return
        owner = self.slices[name].node.queued_resource
        self.end_node(name, "PREEMPTED")
        if owner in self.requests and self.requests[owner].state == "ACTIVE":
            request = self.requests[owner]
            request.state, request.initiator = "SUSPENDING", "SERVICE"
            self.universe.after(SUSPENSION_S, lambda: self._suspended(request))

    def end_node(self, name: str, state: str) -> None:
        found = self.slices.get(name)
        if found is None:
            return
        if found.node.state == "READY":
            found.free_s = self.universe.now_s
        found.node = replace(found.node, state=state)
        for host in found.hosts:
            host.end()

    def host_at(self, address: str) -> Host:
        every = [*self.slices.values(), *self.past]
        return next(host for each in every for host in each.hosts if host.address == address)

    def usd(self, since_s: float = 0.0) -> float:
        """The bill of everything that a job made."""
        now_s = self.universe.now_s
        every = [*self.slices.values(), *self.past]
        return sum(each.usd(now_s, since_s) for each in every if each.node.queued_resource)

    # ------------------------------------------------------------------ the life of a request

    def _seek(self, request: Request) -> None:
        if request.state not in ("ACCEPTED", "WAITING_FOR_RESOURCES"):
            return
        wait_s = self.out_until_s.get(request.spec.node.zone, 0.0) - self.universe.now_s
        if wait_s > 0:
            request.state = "WAITING_FOR_RESOURCES"
            self.universe.after(min(wait_s, 5.0), lambda: self._seek(request))
            return
        request.state = "PROVISIONING"
        owner = request.spec.name
        made = [self.add_node(replace(request.spec.node, name=name), owner) for name in
                request.node_names]  # fmt: skip
        self.universe.after(self.provisioning_s, lambda: self._provisioned(request, made))

    def _provisioned(self, request: Request, made: list[Slice]) -> None:
        request.state = "ACTIVE"
        for each in made:
            self.make_ready(each)

    def _suspended(self, request: Request) -> None:
        if request.state == "SUSPENDING":
            request.state = "SUSPENDED"

    def _vanish(self, request: Request) -> None:
        for name in request.node_names:
            if name in self.slices:
                self.past.append(self.slices.pop(name))
        if self.requests.get(request.spec.name) is request:
            del self.requests[request.spec.name]

    def _look_for_doubles(self, spec: QueuedResourceSpec) -> None:
        job = spec.node.labels.get(LABEL)
        others = [
            name for name, each in self.requests.items() if each.spec.node.labels.get(LABEL) == job
        ]
        if len(others) >= self.at_once:
            self.wrong.append(f"double create: {spec.name} beside {others}")
        if spec.name in self.created:
            self.wrong.append(f"double create: {spec.name} again")

    def _slice(self, name: str) -> Slice:
        if name not in self.slices:
            raise NotFoundError(f"no node {name}")
        return self.slices[name]

    def _request(self, name: str) -> Request:
        if name not in self.requests:
            raise NotFoundError(f"no queued resource {name}")
        return self.requests[name]


@dataclass
class CloudClient:
    """The API as one machine reaches it."""

    cloud: Cloud
    machine: Machine
    faults: Faults

    def get_node(self, zone: str, name: str) -> Node:
        found: Node = self._ask(lambda: self.cloud.get_node(name))
        return found

    def update_node(self, zone: str, name: str, changes: Mapping[str, Any]) -> Operation:
        done: Operation = self._ask(lambda: self.cloud.update_node(name, changes))
        return done

    def host_keys(self, zone: str, name: str) -> list[str]:
        keys: list[str] = self._ask(lambda: self.cloud.host_keys(name))
        return keys

    def get_queued_resource(self, zone: str, name: str) -> QueuedResource:
        found: QueuedResource = self._ask(lambda: self.cloud.get_request(name))
        return found

    def create_queued_resource(self, spec: QueuedResourceSpec, *, request_id: str) -> Operation:
        done: Operation = self._ask(lambda: self.cloud.create_request(spec, request_id))
        return done

    def delete_queued_resource(self, zone: str, name: str, *, force: bool) -> Operation:
        done: Operation = self._ask(lambda: self.cloud.delete_request(name))
        return done

    def _ask(self, effect: Any) -> Any:
        return self.machine.ask(self.faults.around("cloud", effect), 0.1)
