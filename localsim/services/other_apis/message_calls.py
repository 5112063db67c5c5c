"""Methods of the other APIs whose clients speak gRPC: one function answers both wires."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.services.net.request_guard import grpc_refusal
from localsim.services.net.wire_errors import (
    FieldViolation,
    MalformedRequestError,
    abort_call,
    refusal,
    refusing_handler,
)
from localsim.services.other_apis.other_api_calls import ApiCall, ApiMethod, ProjectContext
from localsim.services.rest.rest_binding import request_message

_GenericHandler: Any = grpc.GenericRpcHandler


@dataclass(frozen=True, slots=True)
class MessageMethod:
    """One method: how REST and gRPC name it, and the function that answers both."""

    service: str
    name: str
    http: str
    grpc: str
    """`google.logging.v2.LoggingServiceV2/ListLogEntries`."""
    permission: str
    request: Callable[[], Any]
    """The class of the request; asked when the first call comes, for nobody else pays for it."""
    answer: Callable[[ProjectContext, Any], Awaitable[Any]]
    """The response for a request, both messages; raises CloudError."""
    resource: str = ""
    """The resource that the path names, for the field `name`: `projects/{project}/…`."""

    def rest(self) -> ApiMethod:
        """The row of the method for REST."""

        async def answer(call: ApiCall) -> Any:
            is_read = self.http.startswith("GET ")
            resource = self.resource or ("projects/{project}" if is_read else "")
            path = ("name", resource.format_map(call.names)) if resource else None
            body = ("", None) if is_read else ("*", call.body)
            request = request_message(self.request(), path, call.query.items(), body)
            return json_format.MessageToDict(await self.answer(call.project, request))

        return ApiMethod(self.service, self.name, self.http, self.permission, answer)


class MessageMethods(_GenericHandler):
    """Handles the methods over gRPC, and leaves every other to the next handler."""

    def __init__(
        self,
        project: ProjectContext,
        methods: tuple[MessageMethod, ...],
        admits: Callable[[str], bool],
    ) -> None:
        """`admits` says whether a peer, in gRPC's words, may call."""
        self._handlers = {
            f"/{method.grpc}": grpc.unary_unary_rpc_method_handler(
                _calling(project, method, admits)
            )
            for method in methods
        }

    def service(self, handler_call_details: Any) -> Any:
        """The handler of one call; None for another method."""
        handler = self._handlers.get(handler_call_details.method)
        trace = handler and grpc_refusal(handler_call_details.invocation_metadata)
        if trace:
            return refusing_handler(CloudError(Code.PERMISSION_DENIED, f"Refused: {trace}."))
        return handler


def _calling(
    project: ProjectContext, method: MessageMethod, admits: Callable[[str], bool]
) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def call(body: bytes, context: Any) -> bytes:
        try:
            if not admits(context.peer()):
                raise CloudError(Code.PERMISSION_DENIED, "Refused: this port is not for clients.")
            project.require_enabled(method.service)
            encoded: bytes = (
                await method.answer(project, _parsed(method, body))
            ).SerializeToString()
        except Exception as error:  # noqa: BLE001 (the last resort of a call, shown on stderr)
            await abort_call(context, refusal(error))
        return encoded

    return call


def _parsed(method: MessageMethod, body: bytes) -> Any:
    try:
        return method.request().FromString(body)
    except DecodeError:
        sentence = f"The request is not one of {method.grpc}."
        raise MalformedRequestError([FieldViolation(sentence)]) from None
