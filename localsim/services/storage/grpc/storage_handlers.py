"""The handlers of Cloud Storage for a server of gRPC: bytes in, bytes out, by the tables.

The messages are loaded when the first call of a service comes: most simulators never see one.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NoReturn

import grpc

from localsim.rules.model.cloud_errors import CloudError, Code, unimplemented
from localsim.rules.objects.storage_model import StorageError
from localsim.services.net.request_guard import grpc_refusal
from localsim.services.net.wire_errors import abort_call, refusal, refusing_handler
from localsim.services.storage.grpc.grpc_calls import (
    CallKind,
    RefusalWithDetails,
    RpcMethod,
    grpc_refusal_of,
)
from localsim.services.storage.grpc.method_names import (
    CONTROL,
    OBJECTS,
    OPERATIONS,
    ROUTING,
    routed_bucket,
)
from localsim.services.storage.service import StorageService

_GenericHandler: Any = grpc.GenericRpcHandler
_Methods = Mapping[str, RpcMethod]


def _control() -> _Methods:
    from localsim.services.storage.grpc.control_methods import control_methods

    return control_methods()


def _operations() -> _Methods:
    from localsim.services.storage.grpc.control_methods import operation_methods

    return operation_methods()


def _objects() -> _Methods:
    from localsim.services.storage.grpc.object_methods import object_methods

    return object_methods()


_SERVICES: Mapping[str, Callable[[], _Methods]] = {
    CONTROL: _control,
    OBJECTS: _objects,
    OPERATIONS: _operations,
}


class StorageHandlers(_GenericHandler):
    """Handles the calls of Cloud Storage, and leaves every other to the next handler."""

    def __init__(self, service: StorageService, admits: Callable[[str], bool]) -> None:
        """`admits` says whether a peer, in gRPC's words, may call."""
        self._service = service
        self._admits = admits
        self._handlers: dict[str, Mapping[str, Any]] = {}

    def service(self, handler_call_details: Any) -> Any:
        """The handler of one call; None for another service."""
        service, _, name = handler_call_details.method.strip("/").partition("/")
        metadata = handler_call_details.invocation_metadata
        if service not in _SERVICES or not self._is_meant(service, metadata):
            return None
        trace = grpc_refusal(metadata)
        if trace is not None:
            return refusing_handler(CloudError(Code.PERMISSION_DENIED, f"Refused: {trace}."))
        if service not in self._handlers:
            self._handlers[service] = self._load(service)
        return self._handlers[service].get(name) or refusing_handler(
            unimplemented(f"Method {name}")
        )

    def _is_meant(self, service: str, metadata: Any) -> bool:
        """Whether it is Cloud Storage's: other services have long-running operations too."""
        return service != OPERATIONS or bool(routed_bucket(dict(metadata or ()).get(ROUTING)))

    def _load(self, service: str) -> Mapping[str, Any]:
        try:
            methods = _SERVICES[service]()
        except ImportError:  # an old google-cloud-storage has none of these messages
            return {}
        return {name: self._handler(method) for name, method in methods.items()}

    def _handler(self, method: RpcMethod) -> Any:
        make, call = {
            CallKind.UNARY: (grpc.unary_unary_rpc_method_handler, self._unary),
            CallKind.SERVER_STREAM: (grpc.unary_stream_rpc_method_handler, self._server_stream),
            CallKind.CLIENT_STREAM: (grpc.stream_unary_rpc_method_handler, self._client_stream),
            CallKind.BIDI: (grpc.stream_stream_rpc_method_handler, self._bidi),
        }[method.kind]
        return make(call(method))

    def _unary(self, method: RpcMethod) -> Any:
        async def call(body: bytes, context: Any) -> bytes:
            try:
                self._check(context)
                answer = await method.answer(self._service, method.parse(body))
                return bytes(answer.SerializeToString())
            except Exception as error:  # noqa: BLE001 (the last resort of a call)
                await _abort(context, error)

        return call

    def _client_stream(self, method: RpcMethod) -> Any:
        async def call(bodies: AsyncIterator[bytes], context: Any) -> bytes:
            try:
                self._check(context)
                answer = await method.answer(self._service, _parsed(method, bodies))
                return bytes(answer.SerializeToString())
            except Exception as error:  # noqa: BLE001 (as above)
                await _abort(context, error)

        return call

    def _server_stream(self, method: RpcMethod) -> Any:
        async def call(body: bytes, context: Any) -> AsyncIterator[bytes]:
            try:
                self._check(context)
                async for answer in method.answer(self._service, method.parse(body)):
                    yield answer.SerializeToString()
            except Exception as error:  # noqa: BLE001 (as above)
                await _abort(context, error)

        return call

    def _bidi(self, method: RpcMethod) -> Any:
        async def call(bodies: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            try:
                self._check(context)
                async for answer in method.answer(self._service, _parsed(method, bodies)):
                    yield answer.SerializeToString()
            except Exception as error:  # noqa: BLE001 (as above)
                await _abort(context, error)

        return call

    def _check(self, context: Any) -> None:
        if not self._admits(context.peer()):
            raise CloudError(Code.PERMISSION_DENIED, "Refused: this port is not for clients.")


async def _parsed(method: RpcMethod, bodies: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async for body in bodies:
        yield method.parse(body)


async def _abort(context: Any, error: Exception) -> NoReturn:
    """End a call with an error's status; what this simulator did not expect is on stderr."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, RefusalWithDetails):
        await context.abort(grpc.StatusCode[error.code.name], error.message, error.trailers)
    worded = grpc_refusal_of(error) if isinstance(error, StorageError) else refusal(error)
    await abort_call(context, worded)
