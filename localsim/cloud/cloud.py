"""Cloud TPU, simulated: every method of the API with plain arguments, and the passing of time."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from localsim.clock import Clock
from localsim.cloud import due, guest_attributes, node_life, offerings, request_life, validation
from localsim.cloud.agenda import Action
from localsim.cloud.collection import Page, page_of
from localsim.cloud.errors import Code, Failure
from localsim.cloud.events import BootSlice, DestroySlice, Event, StopSlice
from localsim.cloud.names import Project, checked_id
from localsim.cloud.nodes import (
    NODE_TRANSITIONS,
    Node,
    NodeEvent,
    NodeSpec,
    NodeState,
    WorkerIdentity,
)
from localsim.cloud.operations import Operation
from localsim.cloud.queued_resources import Initiator, QueuedResource, QueuedResourceSpec
from localsim.cloud.scenario import Scenario
from localsim.cloud.state import State


class Cloud:
    """Nodes, queued resources and operations of one project; durable when a method returns."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        clock: Clock,
        *,
        project: str,
        project_number: int,
        scenario: Scenario,
    ) -> None:
        """Go on from what an earlier run left; changes that it had begun come again as events."""
        self._clock = clock
        self._project = Project(project, project_number)
        self._state = State(connection, scenario)
        for node in self._state.nodes:
            if node_life.is_booting(node) and not self._is_promised(node):
                self._state.events.append(BootSlice(node))
            elif node.state == NodeState.STOPPING:
                self._state.events.append(StopSlice(node))

    @property
    def project(self) -> str:
        """The id of the one project there is."""
        return self._project.id

    @property
    def project_number(self) -> int:
        """Its number."""
        return self._project.number

    # Time and the world outside

    def tick(self) -> list[Event]:
        """Do everything that is due, in order; what the outside has to do since the last tick."""
        state, now_s = self._state, self._clock.now()
        due_s = state.agenda.next_due_s()
        if due_s is not None and due_s <= now_s:
            with state.change():
                while (entry := state.agenda.take(now_s)) is not None:
                    due.apply(state, entry)
        events, state.events = state.events, []
        return events

    def next_due_s(self) -> float | None:
        """When something is next to be done by `tick`; None when nothing is promised."""
        return self._state.agenda.next_due_s()

    def slice_booted(self, node_name: str, identities: Sequence[WorkerIdentity]) -> None:
        """The workers are up; no news when the node is gone or was stopped meanwhile."""
        with self._state.change():
            if self._allows(node_name, NodeEvent.BOOT):
                node = node_life.booted(self._state, node_name, identities, self._clock.now())
                request_life.node_is_ready(self._state, node)

    def slice_failed(self, node_name: str, message: str) -> None:
        """The workers cannot boot; no news when none were asked to, nor of a READY node's."""
        state, now_s = self._state, self._clock.now()
        with state.change():
            node = state.nodes.find(node_name)
            if node is None or not node_life.is_booting(node):
                return
            node_life.failed_to_boot(state, node, message, now_s)
            failure = Failure(Code.INTERNAL, message)
            request_life.node_failed(state, node, Initiator.SERVICE, failure)
            request_life.admit_waiting(state, now_s)

    def slice_stopped(self, node_name: str) -> None:
        """The workers have ended; no news when the node is gone meanwhile."""
        with self._state.change():
            if self._allows(node_name, NodeEvent.STOPPED):
                node_life.stopped(self._state, node_name, self._clock.now())

    def preempt(self, node_name: str, notice_s: float | None) -> None:
        """Take a READY node away after a notice; None draws the notice, 0 gives none."""
        with self._state.change():
            name = self._project.resource(node_name, "nodes")
            node_life.preempt(self._state, name, notice_s, self._clock.now())

    def running_nodes(self) -> tuple[Node, ...]:
        """Nodes whose workers were up when localsim last ended."""
        return tuple(node for node in self._state.nodes if node.state == NodeState.READY)

    def nodes_with_disks(self) -> tuple[Node, ...]:
        """Nodes whose workers' disks must be kept."""
        without = (NodeState.DELETING, NodeState.PREEMPTED)
        return tuple(node for node in self._state.nodes if node.state not in without)

    def clear(self) -> None:
        """Delete everything at once."""
        with self._state.change():
            self._state.events[:] = [DestroySlice(node) for node in self.nodes_with_disks()]
            self._state.clear()

    def counts(self) -> dict[str, int]:
        """How many resources of each kind there are."""
        state = self._state
        return {
            "nodes": len(state.nodes),
            "queued_resources": len(state.requests),
            "operations": len(state.operations),
        }

    # Nodes

    def list_nodes(self, parent: str, page_size: int = 0, page_token: str = "") -> Page[Node]:
        """Nodes of a zone, or of all (`-`)."""
        return self._state.nodes.page(self._project.parent(parent), page_size, page_token)

    def get_node(self, name: str) -> Node:
        """One node."""
        return self._state.nodes.get(self._node(name))

    def create_node(self, parent: str, node_id: str, spec: NodeSpec) -> Operation:
        """Ask for a node; the operation ends when it is READY or there is no capacity."""
        zone = self._project.zone(parent)
        name = f"{zone}/nodes/{checked_id('node id', node_id)}"
        wanted = validation.checked_node(zone, spec)
        with self._state.change():
            return node_life.create(self._state, name, wanted, self._clock.now())

    def delete_node(self, name: str) -> Operation:
        """Delete a node; a queued resource that owns it is suspended."""
        with self._state.change():
            now_s = self._clock.now()
            node = self.get_node(name)
            operation = node_life.delete(self._state, node.name, now_s)
            request_life.node_is_lost(self._state, node, Initiator.USER, now_s)
            return operation

    def stop_node(self, name: str) -> Operation:
        """Stop a node of one worker."""
        with self._state.change():
            return node_life.stop(self._state, self._node(name), self._clock.now())

    def start_node(self, name: str) -> Operation:
        """Start a stopped node."""
        with self._state.change():
            return node_life.start(self._state, self._node(name), self._clock.now())

    def update_node(self, name: str, changes: Mapping[str, Any]) -> Operation:
        """Replace whole fields of a READY node: description, labels, metadata, tags."""
        with self._state.change():
            return node_life.update(self._state, self._node(name), changes, self._clock.now())

    def guest_attributes(
        self, name: str, query_path: str = "", worker_ids: Sequence[str] = ()
    ) -> tuple[tuple[guest_attributes.GuestAttribute, ...], ...]:
        """What each asked worker tells about itself."""
        return guest_attributes.of_workers(self.get_node(name), query_path, worker_ids)

    # Queued resources

    def list_queued_resources(
        self, parent: str, page_size: int = 0, page_token: str = ""
    ) -> Page[QueuedResource]:
        """Requests of a zone, or of all (`-`)."""
        return self._state.requests.page(self._project.parent(parent), page_size, page_token)

    def get_queued_resource(self, name: str) -> QueuedResource:
        """One request."""
        return self._state.requests.get(self._request(name))

    def create_queued_resource(
        self, parent: str, queued_resource_id: str, spec: QueuedResourceSpec, request_id: str = ""
    ) -> Operation:
        """File a request; the same `request_id` sent again answers the same operation."""
        zone = self._project.zone(parent)
        name = f"{zone}/queuedResources/{checked_id('queued resource id', queued_resource_id)}"
        wanted = validation.checked_request(zone, spec)
        with self._state.change():
            return request_life.create(self._state, name, wanted, request_id, self._clock.now())

    def delete_queued_resource(
        self, name: str, request_id: str = "", *, force: bool = False
    ) -> Operation:
        """Delete a request; `force` deletes the nodes of an ACTIVE one first."""
        with self._state.change():
            return request_life.delete(
                self._state, self._request(name), request_id, self._clock.now(), force=force
            )

    # What there is to ask for

    def list_accelerator_types(
        self, parent: str, page_size: int = 0, page_token: str = ""
    ) -> Page[offerings.OfferedType]:
        """Accelerator types of a zone, or of all."""
        found = offerings.accelerator_types(self._project.parent(parent))
        return page_of(found, page_size, page_token)

    def get_accelerator_type(self, name: str) -> offerings.OfferedType:
        """One accelerator type in a zone."""
        return offerings.accelerator_type(self._project.resource(name, "acceleratorTypes"))

    def list_runtime_versions(
        self, parent: str, page_size: int = 0, page_token: str = ""
    ) -> Page[offerings.OfferedVersion]:
        """Runtime versions of a zone, or of all."""
        found = offerings.runtime_versions(self._project.parent(parent))
        return page_of(found, page_size, page_token)

    def get_runtime_version(self, name: str) -> offerings.OfferedVersion:
        """One runtime version in a zone."""
        return offerings.runtime_version(self._project.resource(name, "runtimeVersions"))

    def list_locations(
        self, project: str, page_size: int = 0, page_token: str = ""
    ) -> Page[offerings.Location]:
        """The zones of `projects/P`."""
        return page_of(offerings.locations(self._project.whole(project)), page_size, page_token)

    def get_location(self, name: str) -> offerings.Location:
        """One zone."""
        zone = self._project.zone(name)
        return offerings.Location(zone, zone.rpartition("/")[2])

    # Operations

    def list_operations(
        self, parent: str, page_size: int = 0, page_token: str = ""
    ) -> Page[Operation]:
        """Operations of a zone, or of all."""
        return self._state.operations.page(self._project.parent(parent), page_size, page_token)

    def get_operation(self, name: str) -> Operation:
        """One operation."""
        return self._state.operations.get(self._project.resource(name, "operations"))

    def delete_operation(self, name: str) -> None:
        """Forget an operation; what it does goes on."""
        with self._state.change():
            self._state.operations.remove(self.get_operation(name).name)

    def cancel_operation(self, name: str) -> None:
        """Note the wish; as on Google, success is not promised."""
        with self._state.change():
            operation = self.get_operation(name)
            if not operation.is_done:
                self._state.operations.put(replace(operation, cancel_requested=True))

    def _node(self, name: str) -> str:
        return self._project.resource(name, "nodes")

    def _request(self, name: str) -> str:
        return self._project.resource(name, "queuedResources")

    def _is_promised(self, node: Node) -> bool:
        return self._state.agenda.has(Action.PROVISION_NODE, node.name)

    def _allows(self, node_name: str, event: NodeEvent) -> bool:
        node = self._state.nodes.find(node_name)
        return node is not None and event in NODE_TRANSITIONS[node.state]
