"""Every method of Cloud TPU and of the services mixed into it, one row each, for one version."""

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.empty_pb2 import Empty

from localsim.cloud.cloud import Cloud
from localsim.cloud.model.operations import Operation
from localsim.services.tpu import tpu_views
from localsim.services.tpu.tpu_requests import node_changes, node_spec, queued_resource_spec
from localsim.services.tpu.tpu_views import TpuViews

ZONE = "projects/*/locations/*"
_NODES, _NODE = f"{{parent={ZONE}}}/nodes", f"{{name={ZONE}/nodes/*}}"
_REQUESTS = f"{{parent={ZONE}}}/queuedResources"
_REQUEST = f"{{name={ZONE}/queuedResources/*}}"
_TYPES, _TYPE = f"{{parent={ZONE}}}/acceleratorTypes", f"{{name={ZONE}/acceleratorTypes/*}}"
_VERSIONS, _VERSION = f"{{parent={ZONE}}}/runtimeVersions", f"{{name={ZONE}/runtimeVersions/*}}"
_OPERATION = f"{{name={ZONE}/operations/*}}"

Answer = Callable[[Cloud, Any], Any]
"""From the request message to the response message, or to its encoded form."""


class MethodRow(NamedTuple):
    """One method; `http` is its binding, `VERB path [body field]`."""

    name: str
    http: str
    response: str
    answer: Answer


def method_rows(views: TpuViews) -> list[MethodRow]:
    """The rows of Cloud TPU's own methods in a version."""
    found = [*_nodes(views), *_node_verbs(views), *_requests(views), *_offerings(views)]
    return [*found, *_alpha(views)] if views.messages.version == "v2alpha1" else found


def operation_rows(shown: Callable[[Operation], Any]) -> list[MethodRow]:
    """The rows of google.longrunning.Operations."""
    return [
        MethodRow(
            "ListOperations",
            f"GET {{name={ZONE}}}/operations",
            "ListOperationsResponse",
            lambda c, r: tpu_views.operations(
                c.list_operations(r.name, r.page_size, r.page_token, r.filter), shown
            ),
        ),
        MethodRow(
            "GetOperation",
            f"GET {_OPERATION}",
            "Operation",
            lambda c, r: shown(c.get_operation(r.name)),
        ),
        MethodRow(
            "DeleteOperation",
            f"DELETE {_OPERATION}",
            "Empty",
            lambda c, r: _empty(c.delete_operation, r.name),
        ),
        MethodRow(
            "CancelOperation",
            f"POST {_OPERATION}:cancel *",
            "Empty",
            lambda c, r: _empty(c.cancel_operation, r.name),
        ),
    ]


def location_rows() -> list[MethodRow]:
    """The rows of google.cloud.location.Locations."""
    return [
        MethodRow(
            "ListLocations",
            "GET {name=projects/*}/locations",
            "ListLocationsResponse",
            lambda c, r: tpu_views.locations(
                c.list_locations(r.name, r.page_size, r.page_token, r.filter)
            ),
        ),
        MethodRow(
            "GetLocation",
            f"GET {{name={ZONE}}}",
            "Location",
            lambda c, r: tpu_views.location(c.get_location(r.name)),
        ),
    ]


def _nodes(v: TpuViews) -> list[MethodRow]:
    op = v.operation
    return [
        MethodRow(
            "ListNodes",
            f"GET {_NODES}",
            "ListNodesResponse",
            lambda c, r: v.nodes(_page(c.list_nodes, r.parent, r)),
        ),
        MethodRow(
            "GetNode", f"GET {_NODE}", "Node", lambda c, r: v.encoded_node(c.get_node(r.name))
        ),
        MethodRow(
            "CreateNode",
            f"POST {_NODES} node",
            "Operation",
            lambda c, r: op(c.create_node(r.parent, r.node_id, node_spec(r.node), _request_id(r))),
        ),
        MethodRow(
            "DeleteNode",
            f"DELETE {_NODE}",
            "Operation",
            lambda c, r: op(c.delete_node(r.name, _request_id(r))),
        ),
        MethodRow(
            "UpdateNode",
            f"PATCH {_NODE.replace('name=', 'node.name=')} node",
            "Operation",
            lambda c, r: op(c.update_node(r.node.name, node_changes(r.node, r.update_mask))),
        ),
    ]


def _node_verbs(v: TpuViews) -> list[MethodRow]:
    op = v.operation
    return [
        MethodRow(
            "StopNode", f"POST {_NODE}:stop *", "Operation", lambda c, r: op(c.stop_node(r.name))
        ),
        MethodRow(
            "StartNode", f"POST {_NODE}:start *", "Operation", lambda c, r: op(c.start_node(r.name))
        ),
        MethodRow(
            "GetGuestAttributes",
            f"POST {_NODE}:getGuestAttributes *",
            "GetGuestAttributesResponse",
            lambda c, r: v.guest_attributes(
                r.query_path, c.guest_attributes(r.name, r.query_path, tuple(r.worker_ids))
            ),
        ),
        MethodRow(
            "GenerateServiceIdentity",
            f"POST {{parent={ZONE}}}:generateServiceIdentity *",
            "GenerateServiceIdentityResponse",
            lambda c, r: v.service_identity(c.generate_service_identity(r.parent)),
        ),
    ]


def _requests(v: TpuViews) -> list[MethodRow]:
    op = v.operation
    return [
        MethodRow(
            "ListQueuedResources",
            f"GET {_REQUESTS}",
            "ListQueuedResourcesResponse",
            lambda c, r: v.queued_resources(_page(c.list_queued_resources, r.parent, r)),
        ),
        MethodRow(
            "GetQueuedResource",
            f"GET {_REQUEST}",
            "QueuedResource",
            lambda c, r: v.queued_resource(c.get_queued_resource(r.name)),
        ),
        MethodRow(
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
        MethodRow(
            "DeleteQueuedResource",
            f"DELETE {_REQUEST}",
            "Operation",
            lambda c, r: op(c.delete_queued_resource(r.name, r.request_id, force=r.force)),
        ),
        MethodRow(
            "ResetQueuedResource",
            f"POST {_REQUEST}:reset *",
            "Operation",
            lambda c, r: op(c.reset_queued_resource(r.name)),
        ),
    ]


def _offerings(v: TpuViews) -> list[MethodRow]:
    return [
        MethodRow(
            "ListAcceleratorTypes",
            f"GET {_TYPES}",
            "ListAcceleratorTypesResponse",
            lambda c, r: v.accelerator_types(
                c.list_accelerator_types(r.parent, r.page_size, r.page_token, r.filter, r.order_by)
            ),
        ),
        MethodRow(
            "GetAcceleratorType",
            f"GET {_TYPE}",
            "AcceleratorType",
            lambda c, r: v.accelerator_type(c.get_accelerator_type(r.name)),
        ),
        MethodRow(
            "ListRuntimeVersions",
            f"GET {_VERSIONS}",
            "ListRuntimeVersionsResponse",
            lambda c, r: v.runtime_versions(
                c.list_runtime_versions(r.parent, r.page_size, r.page_token, r.filter, r.order_by)
            ),
        ),
        MethodRow(
            "GetRuntimeVersion",
            f"GET {_VERSION}",
            "RuntimeVersion",
            lambda c, r: v.runtime_version(c.get_runtime_version(r.name)),
        ),
    ]


def _alpha(v: TpuViews) -> list[MethodRow]:
    op = v.operation
    return [
        MethodRow(
            "PerformMaintenance",
            f"POST {_NODE}:performMaintenance *",
            "Operation",
            lambda c, r: op(c.perform_maintenance(r.name)),
        ),
        MethodRow(
            "PerformMaintenanceQueuedResource",
            f"POST {_REQUEST}:performMaintenanceQueuedResource *",
            "Operation",
            lambda c, r: op(c.perform_maintenance_queued_resource(r.name, tuple(r.node_names))),
        ),
        MethodRow(
            "SimulateMaintenanceEvent",
            f"POST {_NODE}:simulateMaintenanceEvent *",
            "Operation",
            lambda c, r: op(c.simulate_maintenance_event(r.name, tuple(r.worker_ids))),
        ),
        MethodRow(
            "ListReservations",
            f"GET {{parent={ZONE}}}/reservations",
            "ListReservationsResponse",
            lambda c, r: v.reservations(_page(c.list_reservations, r.parent, r)),
        ),
    ]


def _page(listing: Callable[[str, int, str], Any], parent: str, request: Any) -> Any:
    return listing(parent, request.page_size, request.page_token)


def _request_id(request: Any) -> str:
    """The request id of a node method; only v2alpha1 has it."""
    return getattr(request, "request_id", "")


def _empty(act: Callable[[str], None], name: str) -> Empty:
    act(name)
    return Empty()
