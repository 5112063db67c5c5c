"""The simulated Cloud TPU: the API's methods, the passing of time, and reports of the workers."""

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager

from localsim.clock import Clock
from localsim.rules import agenda_actions, timeline_firing
from localsim.rules.db.journal import UnreadableRecord
from localsim.rules.db.timekeeping import Timekeeping
from localsim.rules.methods_offerings import OfferingMethods
from localsim.rules.methods_resources import NodeMethods, OperationMethods, RequestMethods
from localsim.rules.methods_scenario import ScenarioMethods
from localsim.rules.model.cloud_errors import Code, Failure
from localsim.rules.model.events import BootSlice, DestroySlice, Event, StopSlice
from localsim.rules.model.nodes import Node, NodeEvent, NodeState
from localsim.rules.model.queued_resources import Initiator
from localsim.rules.model.resource_names import ProjectNames
from localsim.rules.nodes import maintenance, node_lifecycle, node_loss, node_power
from localsim.rules.requests import request_lifecycle
from localsim.rules.scenario.scenario import Scenario
from localsim.rules.state import node_faults
from localsim.rules.state.state import State
from localsim.worker_facts import HostIdentity, SlicePosition


class Cloud(NodeMethods, RequestMethods, OfferingMethods, OperationMethods, ScenarioMethods):
    """The Cloud TPU of one project."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        clock: Clock,
        *,
        project: str,
        project_number: int,
        scenario: Scenario,
    ) -> None:
        """Read the state that an earlier run left in the database.

        Slices that were booting or stopping then come again as events.
        """
        known = ProjectNames(project, project_number, self._is_closed, self._is_unreachable)
        super().__init__(State(connection, scenario, project_number), known, clock)
        self._timekeeping = Timekeeping(self._state.journal, clock)
        self.begin_scenario()
        for node in self._state.nodes:
            if node_lifecycle.is_booting(self._state, node):
                self._state.events.append(BootSlice(node))
            elif node.state == NodeState.STOPPING:
                self._state.events.append(StopSlice(node))

    @property
    def project(self) -> str:
        """The project's id."""
        return self._project.id

    @property
    def project_number(self) -> int:
        """The project's number."""
        return self._project.number

    @property
    def has_workers(self) -> bool:
        """Whether nodes have workers; without, `worker_specs.absent_identities` names them."""
        return self._state.scenario.workers != "none"

    def set_api_version(self, api_version: str) -> None:
        """Set the version of the API (`v2`) that the next operations are begun with."""
        self._state.api_version = api_version

    # Time and the world outside

    def batch(self) -> AbstractContextManager[None]:
        """Make all calls of the block durable together when it ends, or none.

        Raises NotWrittenError.
        """
        return self._state.change()

    def tick(self) -> list[Event]:
        """Do everything that is due, in order, and return the events since they were taken last."""
        self.catch_up()
        return self.take_events()

    def catch_up(self) -> None:
        """Do everything that is due, in order of its due time."""
        self._timekeeping.write_if_advanced()
        state, now_s = self._state, self._clock.now()
        due_s = state.agenda.next_due_s()
        if due_s is not None and due_s <= now_s or state.operations.has_expired(now_s):
            with state.change():
                while (entry := state.agenda.take(now_s)) is not None:
                    agenda_actions.apply_entry(state, entry)
                state.operations.forget(now_s)

    def take_events(self) -> list[Event]:
        """Return and forget the events since they were taken last; not within a batch."""
        events = [self.with_fault_effects(event) for event in self._state.events]
        self._state.events = []
        return events

    def next_due_s(self) -> float | None:
        """The due time of the next entry on the agenda, or None when it is empty."""
        return self._state.agenda.next_due_s()

    def mark_slice_booted(self, node_name: str, identities: Sequence[HostIdentity]) -> None:
        """Record that a node's workers are up; ignored when the node is gone or was stopped."""
        with self._state.change():
            found = self._state.nodes.find(node_name)
            # The workers of a READY node come back with a localsim that was started again.
            if found is not None and (
                found.state == NodeState.READY or node_lifecycle.is_booting(self._state, found)
            ):
                is_new = found.state == NodeState.CREATING
                was_ready = found.state == NodeState.READY
                node = node_lifecycle.mark_ready(
                    self._state, node_name, identities, self._clock.now()
                )
                if is_new:
                    agenda_actions.schedule_events(self._state, node, self._clock.now())
                request_lifecycle.handle_ready_node(self._state, node, self._clock.now())
                maintenance.settle_request(self._state, node.queued_resource, self._clock.now())
                if not was_ready:
                    timeline_firing.see_ready(self._state, node, self._clock.now())

    def mark_slice_failed(self, node_name: str, message: str) -> None:
        """Record that a node's workers cannot boot.

        Ignored when no boot was asked for, and for a READY node.
        """
        state, now_s = self._state, self._clock.now()
        with state.change():
            node = state.nodes.find(node_name)
            if node is None or not node_lifecycle.is_booting(state, node):
                return
            node_lifecycle.handle_boot_failure(state, node, message, now_s)
            left = state.nodes.find(node_name)
            if left is not None and left.state == NodeState.UNKNOWN:
                agenda_actions.handle_lost_node(state, left, now_s)
            failure = Failure(Code.INTERNAL, message)
            request_lifecycle.handle_failed_node(state, node, Initiator.SERVICE, failure, now_s)
            agenda_actions.offer_capacity(state, now_s)

    def lose_worker(self, node_name: str, worker: int) -> None:
        """Record that a worker has failed by itself; ignored when its node is gone."""
        with self._state.change():
            node_faults.mark_worker_lost(self._state, node_name, worker, self._clock.now())

    def mark_slice_stopped(self, node_name: str) -> None:
        """Record that a node's workers have ended; ignored when the node is gone."""
        with self._state.change():
            node = self._state.nodes.find(node_name)
            if node is not None and node.allows(NodeEvent.STOPPED):
                node_power.finish_stop(self._state, node_name, self._clock.now())

    def preempt(self, node_name: str, notice_s: float | None) -> float:
        """Take a READY node away after `notice_s`; None draws the notice, 0 gives none.

        Returns the notice in seconds.
        """
        with self._state.change():
            name = self._project.resource(node_name, "nodes")
            return node_loss.preempt(self._state, name, notice_s, self._clock.now())

    def running_nodes(self) -> tuple[Node, ...]:
        """The nodes whose workers were up when localsim last ended."""
        return tuple(node for node in self._state.nodes if node.state == NodeState.READY)

    def nodes_with_disks(self) -> tuple[Node, ...]:
        """The nodes whose workers' disks must be kept."""
        state = self._state
        return tuple(node for node in state.nodes if node_lifecycle.has_disks(state, node))

    def slices_to_keep(self) -> frozenset[str]:
        """Full names of the nodes whose disks must be kept, those that cannot be read included."""
        unreadable = {record.name for record in self.unreadable if record.table == "tpu_nodes"}
        return frozenset({node.name for node in self.nodes_with_disks()} | unreadable)

    @property
    def unreadable(self) -> tuple[UnreadableRecord, ...]:
        """The records of an earlier run that cannot be read: kept until `clear`, and not served."""
        return self._state.journal.unreadable

    def faults_by_worker(self, node: Node) -> node_faults.FaultsByWorker:
        """The faults that the workers of a node suffer from now, by worker index."""
        return node_faults.faults_of_node(self._state, node)

    def slice_position(self, node: Node) -> SlicePosition | None:
        """The place of a node in its multislice request; None for a single slice."""
        request = self._state.requests.find(node.queued_resource) if node.multislice else None
        if request is None:
            return None
        names = [wanted.name for wanted in request.spec.nodes]
        first = self._state.nodes.find(names[0])
        return SlicePosition(
            request=request.name,
            slice_id=names.index(node.name),
            num_slices=len(names),
            coordinator=first.addresses[0] if first is not None else "",
        )

    def clear(self) -> None:
        """Delete every resource and begin the scenario again."""
        with self._state.change():
            self._state.events += [DestroySlice(node) for node in self.nodes_with_disks()]
            self._state.clear()
            self._restart_scenario()

    def counts(self) -> dict[str, int]:
        """How many nodes, queued resources and operations there are."""
        state = self._state
        return {
            "nodes": len(state.nodes),
            "queued_resources": len(state.requests),
            "operations": len(state.operations),
        }
