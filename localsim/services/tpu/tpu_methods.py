"""Every method of Cloud TPU and of the services mixed into it, one row each, for both wires."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf.empty_pb2 import Empty

from localsim.rules.cloud import Cloud
from localsim.rules.db.collection import Page
from localsim.rules.model.operations import Operation
from localsim.rules.nodes.node_update import masked_fields
from localsim.services.tpu.proto_messages import GRPC_MESSAGES, Messages
from localsim.services.tpu.rest_messages import REST_MESSAGES
from localsim.services.tpu.tpu_requests import node_spec, queued_resource_spec
from localsim.services.tpu.tpu_views import Show, TpuViews, build_response, operation_shows

LOCATIONS = "google.cloud.location.Locations"
ZONE = "projects/*/locations/*"
_NODES, _NODE = f"{{parent={ZONE}}}/nodes", f"{{name={ZONE}/nodes/*}}"
_REQUESTS = f"{{parent={ZONE}}}/queuedResources"
_REQUEST = f"{{name={ZONE}/queuedResources/*}}"
_TYPES, _TYPE = f"{{parent={ZONE}}}/acceleratorTypes", f"{{name={ZONE}/acceleratorTypes/*}}"
_VERSIONS, _VERSION = f"{{parent={ZONE}}}/runtimeVersions", f"{{name={ZONE}/runtimeVersions/*}}"
_OPERATION = f"{{name={ZONE}/operations/*}}"

Ask = Callable[[Cloud, Any], Any]
"""From the request message to what the cloud answers."""
Rows = Mapping[str, tuple[str, Ask]]
"""By method: its binding over REST, `VERB path [body field]`, and how the cloud is asked."""


@dataclass(frozen=True, slots=True)
class Method:
    """How a method is called, on each wire, and what answers it."""

    service: str
    name: str
    version: str
    """The version of the API; mixed-in services have one over REST only, from the path."""
    request: Any
    response: Any
    ask: Ask
    show: Show
    http: str

    @property
    def full_name(self) -> str:
        """The method's path in gRPC."""
        return f"/{self.service}/{self.name}"

    def run(self, cloud: Cloud, request: Any) -> bytes:
        """The encoded response to a message."""
        if self.version:
            cloud.set_api_version(self.version)
        reply = self.show(self.ask(cloud, request))
        return reply if isinstance(reply, bytes) else bytes(reply.SerializeToString())


@cache
def all_methods() -> tuple[Method, ...]:
    """Both versions, and what is mixed into them once: what is served over gRPC.

    An operation is shown in the messages of the version that it was begun with, for the clients
    take no other, and the mixed-in service does not say which one is asking.
    """
    views = {version: TpuViews(messages) for version, messages in GRPC_MESSAGES.items()}

    def show(operation: Operation) -> Any:
        return views[operation.api_version].operation(operation)

    own = (method for version in views.values() for method in _tpu_methods(version))
    return (*own, *_mixed_in("", operation_shows(show)))


@cache
def rest_methods(version: str) -> tuple[Method, ...]:
    """The methods of one version, and of the services mixed into it.

    Operations are shown in the version's messages.
    """
    views = TpuViews(REST_MESSAGES[version])
    return (*_tpu_methods(views), *_mixed_in(version, views.shows))


def _tpu_methods(views: TpuViews) -> Iterator[Method]:
    messages = views.messages
    rows = {**_TPU, **_ALPHA} if messages.version == "v2alpha1" else _TPU
    return _methods(f"{messages.package}.Tpu", messages.version, messages, rows, views.shows)


def _mixed_in(version: str, shows: Mapping[str, Show]) -> Iterator[Method]:
    pool = locations_pb2.DESCRIPTOR.pool  # of operations_pb2 too
    for service, rows in _MIXED_IN.items():
        messages = Messages(service.rpartition(".")[0], pool)
        yield from _methods(service, version, messages, rows, shows)


def _methods(
    service: str, version: str, messages: Messages, rows: Rows, shows: Mapping[str, Show]
) -> Iterator[Method]:
    """The methods of a table; `shows` has the responses that depend on the version."""
    for name, (http, ask) in rows.items():
        request, response = messages[f"{name}Request"], _response(name, messages)
        show = shows.get(response.DESCRIPTOR.name) or partial(build_response, response)
        yield Method(service, name, version, request, response, ask, show, http)


def _response(name: str, messages: Messages) -> Any:
    """The class of a method's response: its own, that of the resource it gets, or an operation."""
    named = messages.get(f"{name}Response") or messages.get(name.removeprefix("Get"))
    return named or (Empty if name in _ANSWER_EMPTY else operations_pb2.Operation)


def _page(listing: Callable[..., Page[Any]], parent: str, request: Any, *more: str) -> Page[Any]:
    return listing(parent, request.page_size, request.page_token, *more)


def _request_id(request: Any) -> str:
    """The request id of a node method; only v2alpha1 has it."""
    return getattr(request, "request_id", "")


_TPU: Rows = {
    "ListNodes": (f"GET {_NODES}", lambda c, r: _page(c.list_nodes, r.parent, r)),
    "GetNode": (f"GET {_NODE}", lambda c, r: c.get_node(r.name)),
    "CreateNode": (
        f"POST {_NODES} node",
        lambda c, r: c.create_node(r.parent, r.node_id, node_spec(r.node), _request_id(r)),
    ),
    "DeleteNode": (f"DELETE {_NODE}", lambda c, r: c.delete_node(r.name, _request_id(r))),
    "UpdateNode": (
        f"PATCH {_NODE.replace('name=', 'node.name=')} node",
        lambda c, r: c.update_node(
            r.node.name, masked_fields(node_spec(r.node), r.update_mask.paths)
        ),
    ),
    "StopNode": (f"POST {_NODE}:stop *", lambda c, r: c.stop_node(r.name)),
    "StartNode": (f"POST {_NODE}:start *", lambda c, r: c.start_node(r.name)),
    "GetGuestAttributes": (
        f"POST {_NODE}:getGuestAttributes *",
        lambda c, r: (
            r.query_path,
            c.guest_attributes(r.name, r.query_path, tuple(r.worker_ids)),
        ),
    ),
    "GenerateServiceIdentity": (
        f"POST {{parent={ZONE}}}:generateServiceIdentity *",
        lambda c, r: c.generate_service_identity(r.parent),
    ),
    "ListQueuedResources": (
        f"GET {_REQUESTS}",
        lambda c, r: _page(c.list_queued_resources, r.parent, r),
    ),
    "GetQueuedResource": (f"GET {_REQUEST}", lambda c, r: c.get_queued_resource(r.name)),
    "CreateQueuedResource": (
        f"POST {_REQUESTS} queued_resource",
        lambda c, r: c.create_queued_resource(
            r.parent,
            r.queued_resource_id,
            queued_resource_spec(r.queued_resource),
            r.request_id,
        ),
    ),
    "DeleteQueuedResource": (
        f"DELETE {_REQUEST}",
        lambda c, r: c.delete_queued_resource(r.name, r.request_id, force=r.force),
    ),
    "ResetQueuedResource": (
        f"POST {_REQUEST}:reset *",
        lambda c, r: c.reset_queued_resource(r.name),
    ),
    "ListAcceleratorTypes": (
        f"GET {_TYPES}",
        lambda c, r: _page(c.list_accelerator_types, r.parent, r, r.filter, r.order_by),
    ),
    "GetAcceleratorType": (f"GET {_TYPE}", lambda c, r: c.get_accelerator_type(r.name)),
    "ListRuntimeVersions": (
        f"GET {_VERSIONS}",
        lambda c, r: _page(c.list_runtime_versions, r.parent, r, r.filter, r.order_by),
    ),
    "GetRuntimeVersion": (f"GET {_VERSION}", lambda c, r: c.get_runtime_version(r.name)),
}
"""The methods that both versions have."""

_ALPHA: Rows = {
    "PerformMaintenance": (
        f"POST {_NODE}:performMaintenance *",
        lambda c, r: c.perform_maintenance(r.name),
    ),
    "PerformMaintenanceQueuedResource": (
        f"POST {_REQUEST}:performMaintenanceQueuedResource *",
        lambda c, r: c.perform_maintenance_queued_resource(r.name, tuple(r.node_names)),
    ),
    "SimulateMaintenanceEvent": (
        f"POST {_NODE}:simulateMaintenanceEvent *",
        lambda c, r: c.simulate_maintenance_event(r.name, tuple(r.worker_ids)),
    ),
    "ListReservations": (
        f"GET {{parent={ZONE}}}/reservations",
        lambda c, r: _page(c.list_reservations, r.parent, r),
    ),
}

_MIXED_IN: Mapping[str, Rows] = {
    "google.longrunning.Operations": {
        "ListOperations": (
            f"GET {{name={ZONE}}}/operations",
            lambda c, r: _page(c.list_operations, r.name, r, r.filter),
        ),
        "GetOperation": (f"GET {_OPERATION}", lambda c, r: c.get_operation(r.name)),
        "DeleteOperation": (f"DELETE {_OPERATION}", lambda c, r: c.delete_operation(r.name)),
        "CancelOperation": (f"POST {_OPERATION}:cancel *", lambda c, r: c.cancel_operation(r.name)),
    },
    LOCATIONS: {
        "ListLocations": (
            "GET {name=projects/*}/locations",
            lambda c, r: _page(c.list_locations, r.name, r, r.filter),
        ),
        "GetLocation": (f"GET {{name={ZONE}}}", lambda c, r: c.get_location(r.name)),
    },
}
_ANSWER_EMPTY = ("DeleteOperation", "CancelOperation")
