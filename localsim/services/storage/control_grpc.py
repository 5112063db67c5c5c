"""Storage Control over gRPC: only what gcsfs asks of every bucket, which is whether it has folders.

google.storage.control.v2 of googleapis; its messages are not among this project's packages.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.objects.storage_model import Bucket, StorageError
from localsim.rules.objects.store import ObjectStore
from localsim.services.net.wire_errors import abort_call
from localsim.services.storage.wire.resources import location_of, location_type_of

METHOD = "/google.storage.control.v2.StorageControl/GetStorageLayout"
PERMISSION = "storage.objects.list"
_PREFIX, _SUFFIX = "projects/_/buckets/", "/storageLayout"
_GenericHandler: Any = grpc.GenericRpcHandler


class StorageControlHandler(_GenericHandler):
    """Handles the one method, and leaves every other to the next handler."""

    def __init__(self, objects: ObjectStore, admits: Callable[[str], bool]) -> None:
        self._handler = grpc.unary_unary_rpc_method_handler(_calling(objects, admits))

    def service(self, handler_call_details: Any) -> Any:
        """The handler of one call; None for another method."""
        return self._handler if handler_call_details.method == METHOD else None


def _calling(
    objects: ObjectStore, admits: Callable[[str], bool]
) -> Callable[[bytes, Any], Awaitable[bytes]]:
    request, layout = _messages()

    async def call(body: bytes, context: Any) -> bytes:
        try:
            if not admits(context.peer()):
                raise CloudError(Code.PERMISSION_DENIED, "Refused: this port is not for clients.")
            name = _name(request, body)
            return _encoded(layout, name, _bucket(objects, name))
        except CloudError as error:
            await abort_call(context, error)

    return call


def _name(request: Any, body: bytes) -> str:
    try:
        name: str = request.FromString(body).name
    except DecodeError:
        name = ""
    if not (name.startswith(_PREFIX) and name.endswith(_SUFFIX)):
        raise CloudError(Code.INVALID_ARGUMENT, f"The name '{name}' is not valid.")
    return name


def _bucket(objects: ObjectStore, name: str) -> Bucket:
    try:
        return objects.buckets.get(name.removeprefix(_PREFIX).removesuffix(_SUFFIX))
    except StorageError as error:
        raise CloudError(Code.NOT_FOUND, error.message) from None


def _encoded(layout: Any, name: str, bucket: Bucket) -> bytes:
    found = layout(name=name, location=location_of(bucket), location_type=location_type_of(bucket))
    encoded: bytes = found.SerializeToString()
    return encoded


def _messages() -> tuple[Any, Any]:
    """The request and the answer, as far as they are used."""
    file = descriptor_pb2.FileDescriptorProto(
        name="localsim/storage_control.proto", package="localsim.storage", syntax="proto3"
    )
    for kind, fields in (("Request", ("name",)), ("Layout", ("name", "location", "location_type"))):
        message = file.message_type.add(name=kind)
        for number, field in enumerate(fields, 1):
            message.field.add(
                name=field,
                number=number,
                type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
                label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("localsim.storage.Request", "localsim.storage.Layout")
    kinds = [message_factory.GetMessageClass(pool.FindMessageTypeByName(each)) for each in names]
    return kinds[0], kinds[1]
