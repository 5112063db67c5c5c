"""The simulated cloud's answers as messages of one API version."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from google.longrunning import operations_pb2
from google.protobuf import json_format
from google.protobuf.empty_pb2 import Empty

from localsim.rules.db.collection import Page
from localsim.rules.methods_offerings import Location, OfferedType
from localsim.rules.model.nodes import Node, NodeSpec
from localsim.rules.model.operations import Operation
from localsim.rules.model.queued_resources import (
    QueuedResource,
    QueuedResourceSpec,
    QueueingPolicy,
    RequestedNode,
    RequestState,
    Tier,
)
from localsim.rules.state import subnets
from localsim.rules.supply.reservations import Reservation
from localsim.services.tpu.message_fields import Fields, Given, build_message, fields_of
from localsim.services.tpu.proto_messages import Messages
from localsim.worker_facts import GuestAttributesEntry, Maintenance

ENDPOINT_PORT = 8470
Show = Callable[[Any], Any]
"""From what the cloud answers to the response message, or to its encoded form."""
API_VERSIONS = {"v2": "V2", "v2alpha1": "V2_ALPHA1"}
"""Node.ApiVersion."""


class TpuViews:
    """Replies in the message classes of one API version."""

    def __init__(self, messages: Messages) -> None:
        self.messages = messages
        self._nodes: WeakKeyDictionary[Node, bytes] = WeakKeyDictionary()
        self._lists: dict[type, tuple[Page[Any], bytes]] = {}
        self.shows: Mapping[str, Show] = {
            "Node": self.encoded_node,
            "ListNodesResponse": self.nodes,
            "QueuedResource": self.queued_resource,
            "ListQueuedResourcesResponse": self.queued_resources,
            **operation_shows(self.operation),
        }
        """By the response's name, those that need more than build_response."""

    def node(self, node: Node) -> Any:
        """A Node message."""
        api_version = API_VERSIONS[self.messages.version]
        message = self._message("Node", {**_node_fields(node), "api_version": api_version})
        return _with_rest_only(message, node.spec.rest_only)

    def encoded_node(self, node: Node) -> bytes:
        """An encoded Node, kept until the node changes."""
        listed = self._listed_node(node)
        start = 2  # behind the field's number and its length, which has seven bits in a byte
        while listed[start - 1] & 0x80:
            start += 1
        return listed[start:]

    def nodes(self, page: Page[Node]) -> bytes:
        """An encoded ListNodesResponse."""

        def encoded() -> bytes:
            # Encoded messages that are joined read as one with all their repeated fields.
            tail = self._reply("ListNodes", page)
            return b"".join([*map(self._listed_node, page.items), tail.SerializeToString()])

        return self._list(page, Node, encoded)

    def queued_resource(self, request: QueuedResource) -> Any:
        """A QueuedResource message."""
        message = self._message("QueuedResource", _queued_resource_fields(request))
        for wanted, shown in zip(request.spec.nodes, message.tpu.node_spec, strict=True):
            _with_rest_only(shown.node, wanted.spec.rest_only)
        return _with_rest_only(message, request.spec.rest_only)

    def queued_resources(self, page: Page[QueuedResource]) -> bytes:
        """An encoded ListQueuedResourcesResponse."""

        def encoded() -> bytes:
            shown = map(self.queued_resource, page.items)
            reply = self._reply("ListQueuedResources", page, queued_resources=shown)
            return bytes(reply.SerializeToString())

        return self._list(page, QueuedResource, encoded)

    def operation(self, operation: Operation) -> Any:
        """A google.longrunning.Operation, with metadata and result of this version."""
        message = operations_pb2.Operation(name=operation.name, done=operation.is_done)
        metadata = {**fields_of(operation), "api_version": self.messages.version}
        message.metadata.Pack(build_message(self.messages.operation_metadata, metadata))
        if operation.failure is not None:
            message.error.CopyFrom(build_message(type(message.error), operation.failure))
        elif operation.node is not None:
            message.response.Pack(self.node(operation.node))
        elif operation.queued_resource is not None:
            message.response.Pack(self.queued_resource(operation.queued_resource))
        elif operation.is_done:
            message.response.Pack(Empty())
        return message

    def _list(self, page: Page[Any], kind: type, encoded: Any) -> bytes:
        """An encoded page; the last one again when nothing in it has changed."""
        last = self._lists.get(kind)
        if last is None or last[0] != page:
            last = self._lists[kind] = (page, encoded())
        return last[1]

    def _listed_node(self, node: Node) -> bytes:
        encoded = self._nodes.get(node)
        if encoded is None:
            message = self.messages["ListNodesResponse"](nodes=[self.node(node)])
            encoded = self._nodes[node] = message.SerializeToString()
        return encoded

    def _reply(self, method: str, page: Page[Any], **items: Any) -> Any:
        kind = self.messages[f"{method}Response"]
        return kind(next_page_token=page.next_token, unreachable=page.unreachable, **items)

    def _message(self, name: str, given: Given) -> Any:
        return build_message(self.messages[name], given)


def operation_shows(show: Callable[[Operation], Any]) -> Mapping[str, Show]:
    """The responses with operations, each of which `show` turns into a message."""
    return {
        "Operation": show,
        "ListOperationsResponse": lambda page: operations_pb2.ListOperationsResponse(
            operations=map(show, page.items), next_page_token=page.next_token
        ),
    }


def build_response(kind: Any, answer: Any) -> Any:
    """What the cloud answers as a response of that class, one of _FIELDS_OF_RESPONSES."""
    return build_message(kind, _FIELDS_OF_RESPONSES[kind.DESCRIPTOR.name](answer))


def _with_rest_only(message: Any, rest_only: Mapping[str, Any]) -> Any:
    if rest_only:
        json_format.ParseDict(dict(rest_only), message, ignore_unknown_fields=True)
    return message


def _node_fields(node: Node) -> Fields:
    """The fields of a Node."""
    return {
        **_node_spec_fields(node.spec),
        **fields_of(node),
        "cidr_block": node.spec.cidr_block or _subnet(node),
        "shielded_instance_config": {"enable_secure_boot": node.spec.enable_secure_boot},
        "network_endpoints": _endpoints(node),
        "upcoming_maintenance": node.maintenance and _maintenance(node.maintenance),
    }


def _subnet(node: Node) -> str:
    return subnets.block_of(node.addresses[0]) if node.addresses else ""


def _node_spec_fields(spec: NodeSpec) -> Fields:
    """The fields of a Node that a client asks for."""
    disk = spec.boot_disk
    return {
        **fields_of(spec),
        "boot_disk_config": disk
        and {
            "customer_encryption_key": disk if disk.kms_key_name else None,
            "enable_confidential_compute": disk.enable_confidential_compute,
        },
    }


def _queued_resource_fields(request: QueuedResource) -> Fields:
    """The fields of a QueuedResource."""
    spec = request.spec
    return {
        **_tier(spec),
        "name": request.name,
        "create_time_s": request.create_time_s,
        "tpu": {"node_spec": [_requested(wanted, request.name) for wanted in spec.nodes]},
        "queueing_policy": spec.queueing and _queueing(spec.queueing),
        "reservation_name": spec.reservation_name,
        "state": _state(request),
        "provisioning_model": spec.provisioning_model,
        "run_duration": None
        if spec.max_run_duration_s is None
        else {"max_run_duration_s": spec.max_run_duration_s},
    }


def _reservation_fields(reservation: Reservation) -> Fields:
    """The fields of a Reservation."""
    return {
        **fields_of(reservation),
        "standard": {
            **fields_of(reservation),
            "interval": {"start_time_s": reservation.start_s, "end_time_s": reservation.end_s},
            "usage": {"total": reservation.used},
        },
    }


def _endpoints(node: Node) -> list[Fields]:
    outside = node.external_addresses or ("",) * len(node.addresses)
    return [
        {
            "ip_address": inside,
            "port": ENDPOINT_PORT,
            "access_config": {"external_ip": external} if external else None,
        }
        for inside, external in zip(node.addresses, outside, strict=True)
    ]


def _maintenance(maintenance: Maintenance) -> Fields:
    return {
        **fields_of(maintenance),
        "window_start_time": _rfc3339(maintenance.window_start_s),
        "window_end_time": _rfc3339(maintenance.window_end_s),
        "latest_window_start_time": _rfc3339(maintenance.latest_window_start_s),
        "maintenance_status": maintenance.status,
    }


def _rfc3339(moment_s: float) -> str:
    """A time as Google writes it where a field is a string."""
    return datetime.fromtimestamp(int(moment_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _tier(spec: QueuedResourceSpec) -> Fields:
    if spec.tier == Tier.ON_DEMAND:
        return {}
    return {spec.tier: {"min_duration_s": spec.min_duration_s, "reserved": spec.reserved}}


def _requested(wanted: RequestedNode, owner: str) -> Fields:
    """The fields of a requested node: as it was asked for, with its request and empty messages.

    Source: the described request on Google's pages "Serve ... with vLLM on TPU VMs". The network is
    as it was asked for: python-docs-samples, tpu/test_queued_resources.py.
    """
    node = {
        **_node_spec_fields(wanted.spec),
        "queued_resource": owner,
        "service_account": wanted.spec.service_account or {},
        "shielded_instance_config": {"enable_secure_boot": wanted.spec.enable_secure_boot},
    }
    return {**fields_of(wanted), "node": node}


def _queueing(queueing: QueueingPolicy) -> Fields:
    """The fields of a queueing policy; a duration comes back as the moment that it means.

    Google's sample `queued_resources_create_time_bound` shows so of `valid_until_duration`, and its
    test against the real service asserts it (python-docs-samples, tpu/test_queued_resources.py).
    """
    after_s, until_s = queueing.after_s, queueing.until_s
    form = queueing.form.replace("_duration", "_time")
    if form == "valid_interval":
        return {form: {"start_time_s": after_s, "end_time_s": until_s}}
    return {f"{form}_s": after_s if form == "valid_after_time" else until_s}


def _state(request: QueuedResource) -> Fields:
    fields: dict[str, Any] = {"state": request.state, "state_initiator": request.initiator}
    if request.state != RequestState.WAITING_FOR_RESOURCES:  # the one state without data
        fields[f"{request.state.lower()}_data"] = {"error": request.failure}
    return fields


def _type_fields(offered: OfferedType) -> Fields:
    return {**fields_of(offered), "accelerator_configs": [offered.config]}


def _location_fields(zone: Location) -> Fields:
    return {"name": zone.name, "location_id": zone.zone}


def _guest_attributes(answer: tuple[str, Sequence[Sequence[GuestAttributesEntry]]]) -> Fields:
    """The fields for a query path and the entries of each asked worker."""
    query_path, workers = answer
    answers = ({"query_path": query_path, "query_value": {"items": items}} for items in workers)
    return {"guest_attributes": answers}


def _page_fields(name: str, show: Callable[[Any], Fields]) -> Callable[[Page[Any]], Fields]:
    """A function of a page; the fields of its items are listed under a name."""
    return lambda page: {
        name: map(show, page.items),
        "next_page_token": page.next_token,
        "unreachable": page.unreachable,
    }


_FIELDS_OF_RESPONSES: Mapping[str, Callable[[Any], Fields]] = {
    "AcceleratorType": _type_fields,
    "ListAcceleratorTypesResponse": _page_fields("accelerator_types", _type_fields),
    "RuntimeVersion": fields_of,
    "ListRuntimeVersionsResponse": _page_fields("runtime_versions", fields_of),
    "ListReservationsResponse": _page_fields("reservations", _reservation_fields),
    "GenerateServiceIdentityResponse": lambda email: {"identity": {"email": email}},
    "GetGuestAttributesResponse": _guest_attributes,
    "Location": _location_fields,
    "ListLocationsResponse": _page_fields("locations", _location_fields),
    "Empty": lambda _: {},
}
