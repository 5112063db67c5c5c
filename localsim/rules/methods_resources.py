"""The API's methods of nodes, reservations, queued resources, quota and operations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from localsim.rules.api_methods import ApiMethods
from localsim.rules.db.collection import Page, page_of
from localsim.rules.model import filters
from localsim.rules.model.cloud_errors import Code
from localsim.rules.model.nodes import Node, NodeSpec
from localsim.rules.model.operations import Operation, Verb
from localsim.rules.model.queued_resources import Initiator, QueuedResource, QueuedResourceSpec
from localsim.rules.model.resource_names import ALL_ZONES, checked_id, checked_request_id, zone_of
from localsim.rules.nodes import (
    maintenance,
    node_lifecycle,
    node_power,
    node_update,
    node_validation,
)
from localsim.rules.nodes import node_guest_attributes as guest_attributes
from localsim.rules.requests import request_create, request_lifecycle
from localsim.rules.state import operation_lifecycle
from localsim.rules.supply import quota, reservations
from localsim.rules.supply.quota import QuotaUsage
from localsim.rules.supply.reservations import Reservation
from localsim.worker_facts import GuestAttributesEntry

_OPERATION_FIELDS: Mapping[str, Callable[[Operation], str]] = {
    "name": lambda operation: operation.name,
    "done": lambda operation: str(operation.is_done).lower(),
    "metadata.target": lambda operation: operation.target,
    "metadata.verb": lambda operation: operation.verb,
}


class NodeMethods(ApiMethods):
    """The methods of nodes, and what the workers report."""

    def list_nodes(self, parent: str, page_size: int = 0, page_token: str = "") -> Page[Node]:
        """A page of the nodes of a zone, or of all zones (`-`)."""
        parent = self._project.parent(parent)
        return self._reached(parent, self._state.nodes.page(parent, page_size, page_token))

    def get_node(self, name: str) -> Node:
        """The node of that name; raises CloudError."""
        return self._state.nodes.get(self._node(name))

    def create_node(
        self, parent: str, node_id: str, spec: NodeSpec, request_id: str = ""
    ) -> Operation:
        """Begin to create a node; the operation ends when it is READY or there is no capacity."""
        zone = self._project.zone(parent)
        name = f"{zone}/nodes/{checked_id('node id', node_id)}"
        wanted = node_validation.checked_node(zone, spec)
        request_id = checked_request_id(request_id)
        with self._state.change():
            return node_lifecycle.create(
                self._state, name, wanted, self._clock.now(), request_id=request_id
            )

    def delete_node(self, name: str, request_id: str = "") -> Operation:
        """Begin to delete a node; a queued resource that owns it is suspended."""
        full_name, now_s = self._node(name), self._clock.now()
        request_id = checked_request_id(request_id)
        with self._state.change():
            sent = operation_lifecycle.find_repeated(
                self._state, full_name, Verb.DELETE, request_id
            )
            if sent is not None:
                return sent
            node = self._state.nodes.get(full_name)
            operation = node_lifecycle.delete(self._state, full_name, now_s, request_id=request_id)
            request_lifecycle.handle_lost_node(self._state, node, Initiator.USER, now_s)
            maintenance.settle_request(self._state, node.queued_resource, now_s)
            return operation

    def stop_node(self, name: str) -> Operation:
        """Begin to stop a node of one worker."""
        with self._state.change():
            return node_power.stop(self._state, self._node(name), self._clock.now())

    def start_node(self, name: str) -> Operation:
        """Begin to start a stopped node."""
        with self._state.change():
            return node_power.start(self._state, self._node(name), self._clock.now())

    def update_node(self, name: str, changes: Mapping[str, Any]) -> Operation:
        """Replace whole fields of a READY node, by the paths of `node_update.UPDATABLE`."""
        with self._state.change():
            return node_update.begin(self._state, self._node(name), changes, self._clock.now())

    def guest_attributes(
        self, name: str, query_path: str = "", worker_ids: Sequence[str] = ()
    ) -> tuple[tuple[GuestAttributesEntry, ...], ...]:
        """The guest attributes of each asked worker; no ids mean all workers."""
        return guest_attributes.query_attributes(self.get_node(name), query_path, worker_ids)

    def put_guest_attribute(
        self, node_name: str, worker_index: int, namespace: str, key: str, value: str
    ) -> None:
        """Write a guest attribute that a program PUT on its worker's metadata server."""
        told = GuestAttributesEntry(namespace, key, value)
        with self._state.change():
            guest_attributes.put_attribute(
                self._state, self.get_node(node_name), worker_index, told
            )

    def delete_guest_attribute(
        self, node_name: str, worker_index: int, namespace: str, key: str
    ) -> None:
        """Delete a guest attribute as a program asked its worker's metadata server to."""
        with self._state.change():
            node = self.get_node(node_name)
            guest_attributes.remove_attribute(self._state, node, worker_index, namespace, key)

    def announce_maintenance(
        self, node_name: str, announcement: maintenance.MaintenanceAnnouncement
    ) -> Node:
        """Announce maintenance of a READY node; no client of the API can."""
        with self._state.change():
            name, now_s = self._node(node_name), self._clock.now()
            return maintenance.announce(self._state, name, announcement, now_s)

    def perform_maintenance(self, name: str) -> Operation:
        """Begin the announced maintenance of a node now."""
        with self._state.change():
            return maintenance.perform(self._state, self._node(name), self._clock.now())

    def simulate_maintenance_event(self, name: str, worker_ids: Sequence[str] = ()) -> Operation:
        """Do what a maintenance event does to the first named worker, else to worker 0."""
        with self._state.change():
            now_s = self._clock.now()
            return maintenance.simulate(self._state, self._node(name), worker_ids, now_s)

    def generate_service_identity(self, parent: str) -> str:
        """The e-mail address of the project's Cloud TPU service agent."""
        self._project.zone(parent)
        return self._project.service_agent

    def list_reservations(
        self, parent: str, page_size: int = 0, page_token: str = ""
    ) -> Page[Reservation]:
        """A page of the reservations of a zone, or of all; a page size of 0 has no limit."""
        where = self._project.parent(parent)
        found = reservations.list_reservations(self._state, where, self._clock.now())
        whole = not (page_size or page_token)
        page = Page(found) if whole else page_of(found, page_size, page_token)
        return self._reached(where, page)

    def _node(self, name: str) -> str:
        return self._project.resource(name, "nodes")


class RequestMethods(ApiMethods):
    """The methods of queued resources, and the quota that requests and nodes use."""

    def list_queued_resources(
        self, parent: str, page_size: int = 0, page_token: str = ""
    ) -> Page[QueuedResource]:
        """A page of the queued resources of a zone, or of all (`-`)."""
        parent = self._project.parent(parent)
        return self._reached(parent, self._state.requests.page(parent, page_size, page_token))

    def get_queued_resource(self, name: str) -> QueuedResource:
        """The queued resource of that name; raises CloudError."""
        return self._state.requests.get(self._request(name))

    def create_queued_resource(
        self, parent: str, queued_resource_id: str, spec: QueuedResourceSpec, request_id: str = ""
    ) -> Operation:
        """Begin to create a request; the same `request_id` again returns the same operation."""
        zone = self._project.zone(parent)
        name = f"{zone}/queuedResources/{checked_id('queued resource id', queued_resource_id)}"
        request_id = checked_request_id(request_id)
        with self._state.change():
            return request_create.create(self._state, name, spec, request_id, self._clock.now())

    def delete_queued_resource(
        self, name: str, request_id: str = "", *, force: bool = False
    ) -> Operation:
        """Begin to delete a request; `force` deletes the nodes of an ACTIVE one first."""
        full_name, request_id = self._request(name), checked_request_id(request_id)
        with self._state.change():
            now_s = self._clock.now()
            return request_create.delete(self._state, full_name, request_id, now_s, force=force)

    def reset_queued_resource(self, name: str) -> Operation:
        """Begin to recreate the nodes of an ACTIVE or SUSPENDED request."""
        with self._state.change():
            return request_create.reset(self._state, self._request(name), self._clock.now())

    def perform_maintenance_queued_resource(
        self, name: str, node_names: Sequence[str] = ()
    ) -> Operation:
        """Begin the announced maintenance of nodes of a request; no names mean all nodes."""
        with self._state.change():
            return maintenance.perform_on_request(
                self._state, self._request(name), node_names, self._clock.now()
            )

    def quotas(self) -> tuple[QuotaUsage, ...]:
        """Every quota in every place that it counts in; not a method of the API."""
        return quota.usages(self._state)

    def address_quota(self, region: str) -> QuotaUsage:
        """The external addresses of a region; not a method of the API."""
        return quota.address_usage(self._state, region)

    def _request(self, name: str) -> str:
        return self._project.resource(name, "queuedResources")


class OperationMethods(ApiMethods):
    """List, get, delete and cancel operations."""

    def list_operations(
        self, parent: str, page_size: int = 0, page_token: str = "", where: str = ""
    ) -> Page[Operation]:
        """A page of the operations of a zone, or of all; `where` is the request's filter."""
        parent = self._project.parent(parent)
        if not where:
            page = self._state.operations.page(parent, page_size, page_token)
            return self._reached(parent, page)
        zone, operations = zone_of(parent), self._state.operations
        there = [item for item in operations if zone in (ALL_ZONES, zone_of(item.name))]
        found = filters.select_items(there, _OPERATION_FIELDS, where, "")
        return self._reached(parent, page_of(found, page_size, page_token))

    def get_operation(self, name: str) -> Operation:
        """The operation of that name; raises CloudError."""
        return self._state.operations.get(self._project.resource(name, "operations"))

    def delete_operation(self, name: str) -> None:
        """Delete the record of an operation; its work goes on."""
        with self._state.change():
            self._state.operations.remove(self.get_operation(name).name)

    def cancel_operation(self, name: str) -> None:
        """Record the client's wish; only a node that waits for capacity is given up."""
        state = self._state
        with state.change():
            operation = self.get_operation(name)
            if operation.is_done:
                return
            operation_lifecycle.record_cancellation(state, operation)
            node = state.nodes.find(operation.target)
            if node is not None and node_lifecycle.is_waiting(node):
                sentence = "The operation was cancelled."
                node_lifecycle.give_up(state, node, Code.CANCELLED, sentence, self._clock.now())
