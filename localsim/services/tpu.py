"""Cloud TPU over gRPC: bytes in, bytes out, by the method table."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from localsim.cloud.errors import CloudError, absent, invalid
from localsim.services.tpu_methods import Method, tpu_v2_methods
from localsim.services.wire_errors import grpc_status
from localsim.services.world import World

Behaviour = Callable[[bytes, Any], Awaitable[bytes]]
_GenericHandler: Any = grpc.GenericRpcHandler


def handlers(world: World) -> tuple[Any, ...]:
    """For a grpc.aio server's `add_generic_rpc_handlers`."""
    return (TpuHandler(world, tpu_v2_methods()),)


class TpuHandler(_GenericHandler):
    """Every call of every service; methods outside the table are UNIMPLEMENTED."""

    def __init__(self, world: World, methods: Iterable[Method]) -> None:
        """Serve the methods of a table."""
        self._world = world
        self._methods = {method.full_name: method for method in methods}

    def service(self, handler_call_details: Any) -> Any:
        """The handler of one call."""
        called = handler_call_details.method
        method = self._methods.get(called)
        behaviour = _refusing(called) if method is None else _calling(self._world, method)
        return grpc.unary_unary_rpc_method_handler(behaviour)


def _calling(world: World, method: Method) -> Behaviour:
    async def call(body: bytes, context: Any) -> bytes:
        try:
            request = _parsed(method, body)
            return await world.run(lambda cloud: method.run(cloud, request))
        except CloudError as error:
            return await _abort(context, error)

    return call


def _refusing(called: str) -> Behaviour:
    async def call(_body: bytes, context: Any) -> bytes:
        return await _abort(context, absent(f"Method {called.rpartition('/')[2]}"))

    return call


async def _abort(context: Any, error: CloudError) -> bytes:
    await context.abort(grpc_status(error), error.message)
    raise error  # abort has raised already


def _parsed(method: Method, body: bytes) -> Any:
    try:
        return method.request.FromString(body)
    except DecodeError:
        raise invalid(f"The request is not a {method.name}Request.") from None
