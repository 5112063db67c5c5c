"""v2alpha1 over REST, which no client of Google's offers: JSON in, v2alpha1 messages out."""

import json
from dataclasses import dataclass
from typing import Any

import requests
from google.api_core import exceptions
from google.api_core.operation import Operation
from google.cloud import tpu_v2alpha1
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import json_format
from google.protobuf.empty_pb2 import Empty

_ZONE, _NODE = "{parent}", "{name}"
BINDINGS = {
    "ListNodes": f"GET {_ZONE}/nodes",
    "GetNode": f"GET {_NODE}",
    "CreateNode": f"POST {_ZONE}/nodes node",
    "DeleteNode": f"DELETE {_NODE}",
    "StopNode": f"POST {_NODE}:stop *",
    "StartNode": f"POST {_NODE}:start *",
    "UpdateNode": "PATCH {node.name} node",
    "ListQueuedResources": f"GET {_ZONE}/queuedResources",
    "GetQueuedResource": f"GET {_NODE}",
    "CreateQueuedResource": f"POST {_ZONE}/queuedResources queuedResource",
    "DeleteQueuedResource": f"DELETE {_NODE}",
    "ResetQueuedResource": f"POST {_NODE}:reset *",
    "GenerateServiceIdentity": f"POST {_ZONE}:generateServiceIdentity *",
    "ListAcceleratorTypes": f"GET {_ZONE}/acceleratorTypes",
    "GetAcceleratorType": f"GET {_NODE}",
    "ListRuntimeVersions": f"GET {_ZONE}/runtimeVersions",
    "GetRuntimeVersion": f"GET {_NODE}",
    "GetGuestAttributes": f"POST {_NODE}:getGuestAttributes *",
    "PerformMaintenance": f"POST {_NODE}:performMaintenance *",
    "PerformMaintenanceQueuedResource": f"POST {_NODE}:performMaintenanceQueuedResource *",
    "SimulateMaintenanceEvent": f"POST {_NODE}:simulateMaintenanceEvent *",
    "ListReservations": f"GET {_ZONE}/reservations",
    "ListOperations": f"GET {_NODE}/operations",
    "GetOperation": f"GET {_NODE}",
    "CancelOperation": f"POST {_NODE}:cancel *",
    "DeleteOperation": f"DELETE {_NODE}",
    "ListLocations": f"GET {_NODE}/locations",
    "GetLocation": f"GET {_NODE}",
}
"""The RPC table of Google's REST reference: verb, path, what the body holds."""


@dataclass(frozen=True)
class JsonClient:
    """Speaks JSON with the bindings that Google documents, and reads v2alpha1 messages."""

    session: requests.Session
    base: str

    def call(self, method: str, request: dict[str, Any]) -> Any:
        verb, template, *body = BINDINGS[method].split()
        document = _document(method, request)
        field = template[template.index("{") + 1 : template.index("}")]
        path = template.replace(f"{{{field}}}", _take(document, field))
        content = _content(document, body[0]) if body else None
        return self._read(method, self._send(verb, path, document, content))

    def _send(self, verb: str, path: str, query: dict[str, Any], content: Any) -> Any:
        reply = self.session.request(
            verb, f"{self.base}/v2alpha1/{path}", params=_flat(query), json=content, timeout=60
        )
        if reply.status_code >= 400:
            raise exceptions.from_http_response(reply)
        return reply.json()

    def _read(self, method: str, document: dict[str, Any]) -> Any:
        kind = _response(method)
        if kind is not operations_pb2.Operation or method == "GetOperation":
            return _parsed(kind, document)
        return Operation(
            _parsed(kind, document),
            refresh=lambda **_: self.call("GetOperation", {"name": document["name"]}),
            cancel=lambda **_: self.call("CancelOperation", {"name": document["name"]}),
            result_type=_result(method),
            metadata_type=tpu_v2alpha1.OperationMetadata,
        )


def _document(method: str, request: dict[str, Any]) -> dict[str, Any]:
    """The request as JSON, in the spelling of its message."""
    for types in (tpu_v2alpha1, operations_pb2, locations_pb2):
        if hasattr(types, f"{method}Request"):
            kind = getattr(types, f"{method}Request")
            break
    message = kind(request) if hasattr(kind, "pb") else kind(**request)
    return json_format.MessageToDict(kind.pb(message) if hasattr(kind, "pb") else message)


def _response(method: str) -> Any:
    if method in ("DeleteOperation", "CancelOperation"):
        return Empty
    if method.startswith("Get") and not hasattr(tpu_v2alpha1, f"{method}Response"):
        name = method.removeprefix("Get")
    else:
        name = f"{method}Response"
    for types in (tpu_v2alpha1, operations_pb2, locations_pb2):
        if hasattr(types, name):
            return getattr(types, name)
    return operations_pb2.Operation


def _result(method: str) -> Any:
    if method.startswith("Delete"):
        return Empty
    return tpu_v2alpha1.QueuedResource if "QueuedResource" in method else tpu_v2alpha1.Node


def _parsed(kind: Any, document: dict[str, Any]) -> Any:
    if hasattr(kind, "pb"):
        return kind.from_json(json.dumps(document), ignore_unknown_fields=True)
    return json_format.ParseDict(document, kind(), ignore_unknown_fields=True)


def _take(document: dict[str, Any], path: str) -> str:
    *parents, last = path.split(".")
    for parent in parents:
        document = document[parent]
    return str(document.pop(last))


def _content(document: dict[str, Any], body: str) -> dict[str, Any]:
    if body != "*":
        return document.pop(body, {})
    content = dict(document)
    document.clear()
    return content


def _flat(query: dict[str, Any]) -> dict[str, Any]:
    return {key: str(value).lower() if value is True else value for key, value in query.items()}
