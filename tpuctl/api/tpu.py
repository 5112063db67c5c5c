"""The Cloud TPU API, in tpuctl's own words: Google's messages over one lean channel."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2

from tpuctl.api import retry, views
from tpuctl.api.errors import translated
from tpuctl.api.messages import tpu
from tpuctl.models.node import Node, NodeSpec
from tpuctl.models.operation import Operation
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec

TPU = "google.cloud.tpu.v2.Tpu"
OPERATIONS = "google.longrunning.Operations"
LOCATIONS = "google.cloud.location.Locations"
ALL_ZONES = "-"
PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class TpuApi:
    """Nodes and queued resources of one project, in any zone."""

    channel: grpc.Channel
    project: str
    sleep: Callable[[float], None] = time.sleep
    random: Random = field(default_factory=Random)

    def list_nodes(self, zone: str = ALL_ZONES) -> tuple[list[Node], list[str]]:
        """Nodes of a zone, or of all, and the zones that could not be asked."""
        with translated("list nodes"):
            return self._list("ListNodes", zone, lambda page: map(views.node, page.nodes))

    def get_node(self, zone: str, name: str) -> Node:
        """One node; raises NotFoundError."""
        path = self._path(zone, "nodes", name)
        with self._about_node(zone, name):
            return views.node(self._call("GetNode", {"name": path}, {"name": path}))

    def create_node(self, spec: NodeSpec) -> Operation:
        """Ask for a node; the operation ends when it is READY, or with the reason why not."""
        request = {"node_id": spec.name, "node": views.node_message(spec)}
        hint = f"run: tpuctl node describe {spec.name} --zone {spec.zone}"
        with translated(f"create node {spec.name!r}", hint=hint, changes=True):
            return self._change("CreateNode", spec.zone, request)

    def delete_node(self, zone: str, name: str) -> Operation:
        """Delete a node in whatever state it is; raises NotFoundError."""
        return self._node_change("DeleteNode", zone, name)

    def stop_node(self, zone: str, name: str) -> Operation:
        """Stop a node of one worker; its disk stays."""
        return self._node_change("StopNode", zone, name, changes=True)

    def start_node(self, zone: str, name: str) -> Operation:
        """Start a stopped node."""
        return self._node_change("StartNode", zone, name, changes=True)

    def update_node(self, zone: str, name: str, changes: Mapping[str, Any]) -> Operation:
        """Replace whole fields (description, labels, metadata, tags) of a READY node."""
        path = self._path(zone, "nodes", name)
        request = {
            "node": {"name": path, **changes},
            "update_mask": {"paths": sorted(changes)},
        }
        with self._about_node(zone, name):
            return self._operation("UpdateNode", request, {"node.name": path})

    def host_keys(self, zone: str, name: str) -> list[str]:
        """The public SSH host key of every worker, in order, as the control plane knows it."""
        path = self._path(zone, "nodes", name)
        with self._about_node(zone, name):
            reply = self._call("GetGuestAttributes", {"name": path}, {"name": path})
        return [views.host_key(attributes) for attributes in reply.guest_attributes]

    def list_queued_resources(
        self, zone: str = ALL_ZONES
    ) -> tuple[list[QueuedResource], list[str]]:
        """Requests of a zone, or of all, and the zones that could not be asked."""
        with translated("list queued resources"):
            return self._list(
                "ListQueuedResources",
                zone,
                lambda page: map(views.queued_resource, page.queued_resources),
            )

    def get_queued_resource(self, zone: str, name: str) -> QueuedResource:
        """One request; raises NotFoundError."""
        path = self._path(zone, "queuedResources", name)
        with self._about_request(zone, name):
            reply = self._call("GetQueuedResource", {"name": path}, {"name": path})
        return views.queued_resource(reply)

    def create_queued_resource(self, spec: QueuedResourceSpec, *, request_id: str) -> Operation:
        """File a request; the operation ends when it is filed, long before it is ACTIVE."""
        zone = spec.node.zone
        request = {
            "queued_resource_id": spec.name,
            "queued_resource": views.queued_resource_message(spec, self._parent(zone)),
            "request_id": request_id,
        }
        hint = f"run: tpuctl qr describe {spec.name} --zone {zone}"
        with translated(f"create queued resource {spec.name!r}", hint=hint, changes=True):
            return self._change("CreateQueuedResource", zone, request)

    def delete_queued_resource(self, zone: str, name: str, *, force: bool) -> Operation:
        """Delete a request; `force` deletes its nodes first. Raises NotFoundError."""
        path = self._path(zone, "queuedResources", name)
        with self._about_request(zone, name):
            return self._operation(
                "DeleteQueuedResource", {"name": path, "force": force}, {"name": path}
            )

    def get_operation(self, name: str) -> Operation:
        """Where a long-running operation stands."""
        request = operations_pb2.GetOperationRequest(name=name)
        with translated("operation"):
            reply = self._send(
                OPERATIONS, "GetOperation", request, operations_pb2.Operation, {"name": name}
            )
        return views.operation(reply)

    def list_zones(self) -> list[str]:
        """The zones this project may ask for."""
        request = locations_pb2.ListLocationsRequest(name=f"projects/{self.project}")
        with translated(f"project {self.project!r}"):
            reply = self._send(
                LOCATIONS,
                "ListLocations",
                request,
                locations_pb2.ListLocationsResponse,
                {"name": request.name},
            )
        return sorted(location.location_id for location in reply.locations)

    def close(self) -> None:
        """Give the connection back."""
        self.channel.close()

    def _about_node(
        self, zone: str, name: str, *, changes: bool = False
    ) -> AbstractContextManager[None]:
        subject = f"node {name!r} in {zone}"
        return translated(subject, hint="run: tpuctl node list", changes=changes)

    def _about_request(self, zone: str, name: str) -> AbstractContextManager[None]:
        return translated(f"queued resource {name!r} in {zone}", hint="run: tpuctl qr list")

    def _node_change(
        self, method: str, zone: str, name: str, *, changes: bool = False
    ) -> Operation:
        path = self._path(zone, "nodes", name)
        with self._about_node(zone, name, changes=changes):
            return self._operation(method, {"name": path}, {"name": path})

    def _change(self, method: str, zone: str, request: Mapping[str, Any]) -> Operation:
        parent = self._parent(zone)
        return self._operation(method, {"parent": parent, **request}, {"parent": parent})

    def _operation(
        self, method: str, request: Mapping[str, Any], routing: Mapping[str, str]
    ) -> Operation:
        message = _message(f"{method}Request", request)
        reply = self._send(TPU, method, message, operations_pb2.Operation, routing)
        return Operation("", done=True) if reply is None else views.operation(reply)

    def _call(self, method: str, request: Mapping[str, Any], routing: Mapping[str, str]) -> Any:
        reply = _class(REPLIES.get(method, f"{method}Response"))
        return self._send(TPU, method, _message(f"{method}Request", request), reply, routing)

    def _list(
        self, method: str, zone: str, rows: Callable[[Any], Iterator[Any]]
    ) -> tuple[list[Any], list[str]]:
        parent, token = self._parent(zone), ""
        items: list[Any] = []
        unreachable: list[str] = []
        while True:
            request = {"parent": parent, "page_size": PAGE_SIZE, "page_token": token}
            page = self._call(method, request, {"parent": parent})
            items += rows(page)
            unreachable += page.unreachable
            if not page.next_page_token:
                return items, unreachable
            token = page.next_page_token

    def _send(
        self, service: str, method: str, request: Any, reply: Any, routing: Mapping[str, str]
    ) -> Any:
        send = self.channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        ((key, value),) = routing.items()
        headers = (("x-goog-request-params", f"{key}={value}"),)
        return retry.retrying(
            lambda attempt_s: send(request, timeout=attempt_s, metadata=headers),
            retry.POLICIES[method],
            sleep=self.sleep,
            random=self.random,
        )

    def _parent(self, zone: str) -> str:
        return f"projects/{self.project}/locations/{zone}"

    def _path(self, zone: str, collection: str, name: str) -> str:
        return f"{self._parent(zone)}/{collection}/{name}"


REPLIES = {"GetNode": "Node", "GetQueuedResource": "QueuedResource"}


def _class(name: str) -> Any:
    """The protobuf class itself: proto-plus costs 28 us a node to read."""
    return getattr(tpu, name).pb()


def _message(name: str, fields: Mapping[str, Any]) -> Any:
    return getattr(tpu, name).pb(getattr(tpu, name)(fields))
