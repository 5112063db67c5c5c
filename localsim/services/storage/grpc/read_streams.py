"""Reads over gRPC: one range (ReadObject), or ranges as they are asked for (BidiReadObject)."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import google_crc32c
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import status_pb2

from localsim.rules.model.cloud_errors import Code
from localsim.rules.objects.storage_model import ObjectKey, StorageError, invalid
from localsim.rules.objects.store import OpenObject
from localsim.services.net.wire_errors import STATUS_DETAILS
from localsim.services.storage.grpc.grpc_calls import (
    RefusalWithDetails,
    bucket_name,
    conditions,
)
from localsim.services.storage.grpc.object_messages import (
    checksums_message,
    object_message,
    storage_messages,
)
from localsim.services.storage.service import StorageService

BLOCK_BYTES = 2 * 1024 * 1024
"""So much is in a message at most, as on Google."""


def _range_refusal(read_id: int, message: str) -> RefusalWithDetails:
    """The refusal of a range that cannot be read; its details name the range."""
    messages = storage_messages()
    status = status_pb2.Status(code=Code.OUT_OF_RANGE, message=message)
    error = messages["BidiReadObjectError"](
        read_range_errors=[messages["ReadRangeError"](read_id=read_id, status=status)]
    )
    detail = AnyMessage()
    detail.Pack(error)
    status.details.append(detail)
    trailers = ((STATUS_DETAILS, status.SerializeToString()),)
    return RefusalWithDetails(Code.OUT_OF_RANGE, message, trailers)


async def read_object(service: StorageService, request: Any) -> AsyncIterator[Any]:
    """The bytes of an object from an offset on; the first message describes it."""
    key = ObjectKey(bucket_name(request.bucket), request.object_, request.generation or None)
    messages = storage_messages()
    with service.objects.open(key, conditions(request)) as body:
        stored = body.stored
        wanted = _range(request.read_offset, request.read_limit, stored.size_bytes)
        head = messages["ReadObjectResponse"](
            object_checksums=checksums_message(stored),
            metadata=object_message(stored, request.read_mask.paths),
            content_range=messages["ContentRange"](
                start=wanted.start, end=wanted.stop, complete_length=stored.size_bytes
            ),
        )
        if not wanted:
            yield head
            return
        async for _, data in _blocks(body, wanted):
            head.checksummed_data.CopyFrom(_checksummed(data))
            yield head
            head = messages["ReadObjectResponse"]()


async def bidi_read_object(
    service: StorageService, requests: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """The ranges that the client asks for, one after the other, as long as it asks."""
    first = await anext(requests, None)
    if first is None:
        return
    if not first.HasField("read_object_spec"):
        raise invalid("The first message must have a read_object_spec.")
    spec = first.read_object_spec
    key = ObjectKey(bucket_name(spec.bucket), spec.object_, spec.generation or None)
    response = storage_messages()["BidiReadObjectResponse"]
    with service.objects.open(key, conditions(spec)) as body:
        head = response(metadata=object_message(body.stored, spec.read_mask.paths))
        head.read_handle.handle = secrets.token_bytes(16)
        yield head
        request = first
        while request is not None:
            for asked in request.read_ranges:
                async for part in _range_parts(body, asked):
                    yield response(object_data_ranges=[part])
            request = await anext(requests, None)


async def _range_parts(body: OpenObject, asked: Any) -> AsyncIterator[Any]:
    messages = storage_messages()
    try:
        wanted = _range(asked.read_offset, asked.read_length, body.stored.size_bytes)
    except StorageError as error:
        raise _range_refusal(asked.read_id, error.message) from None

    def part(start: int, data: bytes) -> Any:
        place = messages["ReadRange"](
            read_offset=start, read_length=len(data), read_id=asked.read_id
        )
        return messages["ObjectRangeData"](
            checksummed_data=_checksummed(data),
            read_range=place,
            range_end=start + len(data) == wanted.stop,
        )

    if not wanted:
        yield part(wanted.start, b"")
        return
    async for start, data in _blocks(body, wanted):
        yield part(start, data)


def _range(offset: int, limit: int, size_bytes: int) -> range:
    """The offsets that are asked for; a negative one counts from the end, limit 0 is no limit."""
    if limit < 0:
        raise StorageError(416, "outOfRange", f"The read limit {limit} is negative.")
    start = max(0, size_bytes + offset) if offset < 0 else offset
    if start > size_bytes:
        raise StorageError(
            416, "outOfRange", f"The offset {offset} is behind the end of {size_bytes} bytes."
        )
    return range(start, min(start + limit, size_bytes) if limit else size_bytes)


async def _blocks(body: OpenObject, wanted: range) -> AsyncIterator[tuple[int, bytes]]:
    """The bytes with their offsets, in blocks; files are read in a thread."""
    offset = wanted.start
    for start in range(wanted.start, wanted.stop, BLOCK_BYTES):
        end = min(start + BLOCK_BYTES, wanted.stop)
        is_in_file = bool(body.stored.body_files)
        data = (
            await asyncio.to_thread(body.read, start, end) if is_in_file else body.read(start, end)
        )
        yield offset, data
        offset += len(data)


def _checksummed(data: bytes) -> Any:
    return storage_messages()["ChecksummedData"](content=data, crc32c=google_crc32c.value(data))
