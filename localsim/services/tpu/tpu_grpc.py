"""Cloud TPU over gRPC: bytes in, bytes out, by the method table.

A web page cannot speak to this port: browsers speak HTTP/2 only inside TLS, and this port answers
nothing else. gRPC for Python does not show a handler the `:authority` that a client sent, only a
`host` sent in its place: what stands before the server marks a call for another host, which is
refused here as are the marks of a browser (grpc_front.py, request_guard.py).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from localsim.rules.model.cloud_errors import CloudError, Code, unimplemented
from localsim.services.net.request_guard import grpc_refusal
from localsim.services.net.wire_errors import (
    FieldViolation,
    MalformedRequestError,
    abort_call,
    refusal,
    refusing_handler,
)
from localsim.services.tpu.calls import CloudPort, ConnectionDroppedError, answer_call
from localsim.services.tpu.tpu_methods import Method, all_methods

_GenericHandler: Any = grpc.GenericRpcHandler


def _everybody(_: str) -> bool:
    return True


def handlers(cloud_port: CloudPort, admits: Callable[[str], bool] = _everybody) -> tuple[Any, ...]:
    """The handlers for a grpc.aio server's `add_generic_rpc_handlers`.

    `admits` says whether a peer, in gRPC's words, may call.
    """
    return (_TpuHandler(cloud_port, admits),)


class _TpuHandler(_GenericHandler):
    """Handles every call of every service; unknown methods are UNIMPLEMENTED."""

    def __init__(self, cloud_port: CloudPort, admits: Callable[[str], bool]) -> None:
        self._handlers = {
            method.full_name: grpc.unary_unary_rpc_method_handler(
                _calling(cloud_port, method, admits)
            )
            for method in all_methods()
        }

    def service(self, handler_call_details: Any) -> Any:
        """The handler of one call."""
        trace = grpc_refusal(handler_call_details.invocation_metadata)
        if trace is not None:
            return refusing_handler(CloudError(Code.PERMISSION_DENIED, f"Refused: {trace}."))
        path = handler_call_details.method
        if path in self._handlers:
            return self._handlers[path]
        return refusing_handler(unimplemented(f"Method {path.rpartition('/')[2]}"))


def _calling(
    cloud_port: CloudPort, method: Method, admits: Callable[[str], bool]
) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def call(body: bytes, context: Any) -> bytes:
        if not admits(context.peer()):
            sentence = "Refused: this port is not for clients."
            await abort_call(context, CloudError(Code.PERMISSION_DENIED, sentence))
        try:
            return await answer_call(cloud_port, method, lambda: _parsed(method, body))
        except (ConnectionDroppedError, asyncio.CancelledError):
            # One call cannot close a connection that others share; this is what a client of gRPC
            # is told when its connection is closed. Or the client has gone, or this server ends.
            await abort_call(context, CloudError(Code.UNAVAILABLE, "Socket closed"))
        except Exception as error:  # noqa: BLE001 (the last resort of a call, shown on stderr)
            await abort_call(context, refusal(error))

    return call


def _parsed(method: Method, body: bytes) -> Any:
    try:
        return method.request.FromString(body)
    except DecodeError:
        sentence = f"The request is not a {method.name}Request."
        raise MalformedRequestError([FieldViolation(sentence)]) from None
