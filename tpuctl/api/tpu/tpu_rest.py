"""Calls with fields that no message class has, as JSON: flex-start, a node's reservation.

The same retries and the same errors as over gRPC: a refusal is an `HttpError`, which looks like one
of gRPC's to `retry.py` and `rpc_errors.py`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from urllib.parse import urlencode

from google.longrunning import operations_pb2
from google.protobuf import json_format
from grpc import StatusCode

from tpuctl.api.tpu import decode, retry
from tpuctl.api.tpu.encode import reservation_name
from tpuctl.api.tpu.grpc_client import PAGE_SIZE
from tpuctl.api.tpu.rest import RestApi
from tpuctl.api.tpu.rpc_errors import HttpError
from tpuctl.api.tpu.versions import V2ALPHA1
from tpuctl.errors import IntegrityError
from tpuctl.models.node import NodeSpec, Provisioning
from tpuctl.models.operation import Operation, Status
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec
from tpuctl.network_policy import TPU_READ, CallPolicy
from tpuctl.page_tokens import json_token, read_pages

FLEX_START = "FLEX_START"
FIRST_ERROR_STATUS = 400
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BY_HTTP_STATUS = {
    400: StatusCode.INVALID_ARGUMENT,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.NOT_FOUND,
    409: StatusCode.ABORTED,
    429: StatusCode.RESOURCE_EXHAUSTED,
    501: StatusCode.UNIMPLEMENTED,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.DEADLINE_EXCEEDED,
}
"""Where the body does not say which of google.rpc.Code it is."""


@dataclass(frozen=True, slots=True)
class TpuRest:
    """The REST face of the Cloud TPU API."""

    api: RestApi
    sleep: Callable[[float], None] = time.sleep
    random: Random = field(default_factory=Random)

    def create_queued_resource(self, request: Any, spec: QueuedResourceSpec) -> Operation:
        """File a flex-start request; `request` is a CreateQueuedResourceRequest of v2alpha1."""
        query = urlencode(
            {"queuedResourceId": request.queued_resource_id, "requestId": request.request_id}
        )
        body = {
            **json_format.MessageToDict(request.queued_resource),
            "provisioningModel": FLEX_START,
            "runDuration": {"maxRunDuration": f"{spec.max_run_duration_s or 0:.0f}s"},
        }
        path = f"/{V2ALPHA1.name}/{request.parent}/queuedResources?{query}"
        policy = retry.policy("CreateQueuedResource", request)
        return _operation(self._call(policy, "POST", path, body))

    def create_node(self, request: Any, spec: NodeSpec) -> Operation:
        """Ask for a node from one reservation; `request` is a CreateNodeRequest of v2alpha1."""
        body = json_format.MessageToDict(request.node)
        name = reservation_name(spec.reservation or "-", request.parent)
        body["schedulingConfig"] = {"reserved": True, "reservationName": name}
        query = urlencode({"nodeId": request.node_id, "requestId": request.request_id})
        path = f"/{V2ALPHA1.name}/{request.parent}/nodes?{query}"
        policy = retry.policy("CreateNode", request)
        return _operation(self._call(policy, "POST", path, body))

    def get_queued_resource(self, name: str) -> QueuedResource:
        """The queued resource of that full name, its provisioning and run duration included."""
        document = self._call(TPU_READ, "GET", f"/{V2ALPHA1.name}/{name}")
        message = V2ALPHA1.reply_class("QueuedResource")()
        json_format.ParseDict(dict(document), message, ignore_unknown_fields=True)
        found = decode.queued_resource(message)
        if document.get("provisioningModel") != FLEX_START:
            return found
        limit = str(document.get("runDuration", {}).get("maxRunDuration", ""))
        limit_s = float(limit.removesuffix("s")) if limit else None
        return replace(found, provisioning=Provisioning.FLEX_START, max_run_duration_s=limit_s)

    def flex_starts(self, parent: str) -> frozenset[tuple[str, str]]:
        """Zone and name of the flex-start requests below a parent."""
        query = {"fields": "nextPageToken,queuedResources(name,provisioningModel)"}

        def fetch(token: str) -> Mapping[str, Any]:
            page = urlencode({**query, "pageSize": PAGE_SIZE, "pageToken": token})
            return self._call(TPU_READ, "GET", f"/{V2ALPHA1.name}/{parent}/queuedResources?{page}")

        what = f"queuedResources of {parent}"
        return frozenset(
            decode.zone_and_id(each["name"])
            for page in read_pages(fetch, json_token, IntegrityError, what)
            for each in page.get("queuedResources", ())
            if each.get("provisioningModel") == FLEX_START
        )

    def _call(
        self, policy: CallPolicy, verb: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        reply = retry.call_with_retries(
            lambda _: send_json(self.api, verb, path, body),
            policy,
            sleep=self.sleep,
            random=self.random,
        )
        return reply or {}


def send_json(
    api: RestApi, verb: str, path: str, body: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """One attempt of a call; its JSON reply. Raises HttpError, and what tokens raise."""
    try:
        reply = api.request(verb, path, body)
    except OSError as error:  # what requests raises when there is no answer
        lost = StatusCode.UNAVAILABLE
        message = str(error) or type(error).__name__
        raise HttpError(lost, Status(lost.value[0], message)) from error
    if reply.status >= FIRST_ERROR_STATUS:
        raise refusal(reply.status, reply.document, reply.retry_after)
    return reply.document


def _operation(document: Mapping[str, Any]) -> Operation:
    # What it wraps are messages with fields that no class here has.
    bare = {key: value for key, value in document.items() if key in ("name", "done", "error")}
    found = operations_pb2.Operation()
    json_format.ParseDict(bare, found, ignore_unknown_fields=True)
    return decode.operation(found)


def refusal(http_status: int, document: Mapping[str, Any], retry_after: str = "") -> HttpError:
    """The error that the body of an HTTP reply describes, as every Google API words it."""
    error = document.get("error")
    error = error if isinstance(error, Mapping) else {}
    name = str(error.get("status", ""))
    code = BY_HTTP_STATUS.get(http_status, StatusCode.UNKNOWN)
    if name in StatusCode.__members__:
        code = StatusCode[name]
    details = [each for each in error.get("details", ()) if isinstance(each, Mapping)]
    info = next((each for each in details if each.get("@type") == ERROR_INFO), {})
    message = str(error.get("message") or f"HTTP status {http_status}")
    metadata = {str(key): str(value) for key, value in (info.get("metadata") or {}).items()}
    status = Status(code.value[0], message, str(info.get("reason", "")), metadata)
    return HttpError(code, status, retry_after)
