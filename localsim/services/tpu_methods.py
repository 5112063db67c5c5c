"""Every method of the emulated services, one row each: both wires are views of this table."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf.empty_pb2 import Empty

from localsim.cloud.cloud import Cloud
from localsim.cloud.errors import absent
from localsim.services import tpu_views
from localsim.services.messages import tpu_v2
from localsim.services.tpu_requests import node_changes, node_spec, queued_resource_spec
from localsim.services.tpu_views import TpuViews

TPU_V2 = "google.cloud.tpu.v2.Tpu"
OPERATIONS = "google.longrunning.Operations"
LOCATIONS = "google.cloud.location.Locations"

_ZONE = "projects/*/locations/*"
_NODES, _NODE = f"{{parent={_ZONE}}}/nodes", f"{{name={_ZONE}/nodes/*}}"
_REQUESTS = f"{{parent={_ZONE}}}/queuedResources"
_REQUEST = f"{{name={_ZONE}/queuedResources/*}}"
_TYPES, _TYPE = f"{{parent={_ZONE}}}/acceleratorTypes", f"{{name={_ZONE}/acceleratorTypes/*}}"
_VERSIONS, _VERSION = f"{{parent={_ZONE}}}/runtimeVersions", f"{{name={_ZONE}/runtimeVersions/*}}"
_OPERATION = f"{{name={_ZONE}/operations/*}}"

Answer = Callable[[Cloud, Any], Any]
"""From the request message to the response message, or to its encoded form."""
Row = tuple[str, str, str, Answer]
"""Name, HTTP binding (`VERB path [body field]`), response type, answer."""


@dataclass(frozen=True, slots=True)
class Method:
    """How a method is called, on each wire, and what answers it."""

    service: str
    name: str
    request: Any
    response: Any
    answer: Answer
    http: str

    @property
    def full_name(self) -> str:
        """As gRPC calls it."""
        return f"/{self.service}/{self.name}"

    def run(self, cloud: Cloud, request: Any) -> bytes:
        """The encoded response."""
        reply = self.answer(cloud, request)
        return reply if isinstance(reply, bytes) else bytes(reply.SerializeToString())


def tpu_v2_methods() -> tuple[Method, ...]:
    """google.cloud.tpu.v2 and what is mixed into it."""
    return method_table(TpuViews(tpu_v2, "V2"), TPU_V2)


def method_table(views: TpuViews, service: str) -> tuple[Method, ...]:
    """The methods of one API version, and those of the services mixed into it."""
    return (
        *_methods(service, views.types, [*_nodes(views), *_requests(views), *_offerings(views)]),
        *_methods(service, views.types, _absent()),
        *_methods(OPERATIONS, operations_pb2, _operations(views)),
        *_methods(LOCATIONS, locations_pb2, _locations()),
    )


def _nodes(v: TpuViews) -> list[Row]:
    op = v.operation
    return [
        (
            "ListNodes",
            f"GET {_NODES}",
            "ListNodesResponse",
            lambda c, r: v.nodes(_page(c.list_nodes, r)),
        ),
        ("GetNode", f"GET {_NODE}", "Node", lambda c, r: v.node(c.get_node(r.name))),
        (
            "CreateNode",
            f"POST {_NODES} node",
            "Operation",
            lambda c, r: op(c.create_node(r.parent, r.node_id, node_spec(r.node))),
        ),
        ("DeleteNode", f"DELETE {_NODE}", "Operation", lambda c, r: op(c.delete_node(r.name))),
        ("StopNode", f"POST {_NODE}:stop *", "Operation", lambda c, r: op(c.stop_node(r.name))),
        ("StartNode", f"POST {_NODE}:start *", "Operation", lambda c, r: op(c.start_node(r.name))),
        (
            "UpdateNode",
            f"PATCH {_NODE.replace('name=', 'node.name=')} node",
            "Operation",
            lambda c, r: op(c.update_node(r.node.name, node_changes(r.node, r.update_mask))),
        ),
        (
            "GetGuestAttributes",
            f"POST {_NODE}:getGuestAttributes *",
            "GetGuestAttributesResponse",
            lambda c, r: v.guest_attributes(
                r.query_path, c.guest_attributes(r.name, r.query_path, r.worker_ids)
            ),
        ),
    ]


def _requests(v: TpuViews) -> list[Row]:
    op = v.operation
    return [
        (
            "ListQueuedResources",
            f"GET {_REQUESTS}",
            "ListQueuedResourcesResponse",
            lambda c, r: v.queued_resources(_page(c.list_queued_resources, r)),
        ),
        (
            "GetQueuedResource",
            f"GET {_REQUEST}",
            "QueuedResource",
            lambda c, r: v.queued_resource(c.get_queued_resource(r.name)),
        ),
        (
            "CreateQueuedResource",
            f"POST {_REQUESTS} queued_resource",
            "Operation",
            lambda c, r: op(
                c.create_queued_resource(
                    r.parent,
                    r.queued_resource_id,
                    queued_resource_spec(r.queued_resource),
                    r.request_id,
                )
            ),
        ),
        (
            "DeleteQueuedResource",
            f"DELETE {_REQUEST}",
            "Operation",
            lambda c, r: op(c.delete_queued_resource(r.name, r.request_id, force=r.force)),
        ),
    ]


def _offerings(v: TpuViews) -> list[Row]:
    return [
        (
            "ListAcceleratorTypes",
            f"GET {_TYPES}",
            "ListAcceleratorTypesResponse",
            lambda c, r: v.accelerator_types(_page(c.list_accelerator_types, r)),
        ),
        (
            "GetAcceleratorType",
            f"GET {_TYPE}",
            "AcceleratorType",
            lambda c, r: v.accelerator_type(c.get_accelerator_type(r.name)),
        ),
        (
            "ListRuntimeVersions",
            f"GET {_VERSIONS}",
            "ListRuntimeVersionsResponse",
            lambda c, r: v.runtime_versions(_page(c.list_runtime_versions, r)),
        ),
        (
            "GetRuntimeVersion",
            f"GET {_VERSION}",
            "RuntimeVersion",
            lambda c, r: v.runtime_version(c.get_runtime_version(r.name)),
        ),
    ]


def _operations(v: TpuViews) -> list[Row]:
    return [
        (
            "ListOperations",
            f"GET {{name={_ZONE}}}/operations",
            "ListOperationsResponse",
            lambda c, r: v.operations(_page(c.list_operations, r)),
        ),
        (
            "GetOperation",
            f"GET {_OPERATION}",
            "Operation",
            lambda c, r: v.operation(c.get_operation(r.name)),
        ),
        (
            "DeleteOperation",
            f"DELETE {_OPERATION}",
            "Empty",
            lambda c, r: _empty(c.delete_operation(r.name)),
        ),
        (
            "CancelOperation",
            f"POST {_OPERATION}:cancel *",
            "Empty",
            lambda c, r: _empty(c.cancel_operation(r.name)),
        ),
    ]


def _locations() -> list[Row]:
    return [
        (
            "ListLocations",
            "GET {name=projects/*}/locations",
            "ListLocationsResponse",
            lambda c, r: tpu_views.locations(_page(c.list_locations, r)),
        ),
        (
            "GetLocation",
            f"GET {{name={_ZONE}}}",
            "Location",
            lambda c, r: tpu_views.location(c.get_location(r.name)),
        ),
    ]


def _absent() -> list[Row]:
    return [
        (
            "ResetQueuedResource",
            f"POST {_REQUEST}:reset *",
            "Operation",
            _refuse("ResetQueuedResource"),
        ),
        (
            "GenerateServiceIdentity",
            f"POST {{parent={_ZONE}}}:generateServiceIdentity *",
            "GenerateServiceIdentityResponse",
            _refuse("GenerateServiceIdentity"),
        ),
    ]


def _refuse(method: str) -> Answer:
    def refuse(_cloud: Cloud, _request: Any) -> Any:
        raise absent(f"Method {method}")

    return refuse


def _methods(service: str, types: Any, rows: list[Row]) -> Iterator[Method]:
    for name, http, response, answer in rows:
        request = _message(types, f"{name}Request")
        yield Method(service, name, request, _message(types, response), answer, http)


_SHARED = {"Operation": operations_pb2.Operation, "Empty": Empty}


def _message(types: Any, name: str) -> Any:
    kind = _SHARED.get(name) or getattr(types, name)
    return kind.pb() if hasattr(kind, "pb") else kind


def _page(listing: Callable[[str, int, str], Any], request: Any) -> Any:
    """One page; requests name their parent `parent` or, in the mixed-in services, `name`."""
    for option in ("filter", "order_by"):
        if getattr(request, option, ""):
            raise absent(f"{option} of {type(request).__name__}")
    parent = request.parent if hasattr(request, "parent") else request.name
    return listing(parent, request.page_size, request.page_token)


def _empty(_nothing: None) -> Empty:
    return Empty()
