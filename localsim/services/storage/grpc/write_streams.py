"""Writes over gRPC: in one stream, in sessions, and objects that are appended to.

A session of a resumable write is the same as that of the JSON API: its upload ID is good for both.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import google_crc32c

from localsim.rules.objects.files.incoming_body import IncomingBody
from localsim.rules.objects.object_copies import MAX_OBJECT_BYTES
from localsim.rules.objects.storage_model import (
    Hashes,
    ObjectKey,
    StorageError,
    StoredObject,
    invalid,
)
from localsim.rules.objects.uploads.upload_sessions import UploadSession
from localsim.services.storage.grpc.grpc_calls import bucket_name, conditions
from localsim.services.storage.grpc.object_messages import (
    crc32c_number,
    expected_hashes,
    new_object,
    object_message,
    storage_messages,
)
from localsim.services.storage.methods.single_uploads import (
    receive_data,
    seal_body,
    with_default_key,
)
from localsim.services.storage.service import StorageService


@dataclass(slots=True)
class AppendWriters:
    """Who writes to each open object, by its generation: the last one that came."""

    current: dict[int, bytes] = field(default_factory=dict)

    def take_over(self, generation: int) -> bytes:
        """The handle of a new writer; an earlier one may write no more."""
        handle = self.current[generation] = secrets.token_bytes(16)
        return handle

    def check(self, generation: int, handle: bytes) -> None:
        """Raise ABORTED for a writer whose place another one has taken."""
        if self.current.get(generation) != handle:
            raise StorageError(304, "aborted", "Another writer has taken over this object.")

    def leave(self, generation: int, handle: bytes) -> None:
        """Forget a writer that has ended."""
        if self.current.get(generation) == handle:
            del self.current[generation]


_WRITERS: WeakKeyDictionary[Any, AppendWriters] = WeakKeyDictionary()
"""By the store that they write to."""


async def write_object(service: StorageService, requests: AsyncIterator[Any]) -> Any:
    """One object, or the next bytes of a session, from a stream of messages."""
    kind = storage_messages()["WriteObjectResponse"]
    async for response in _written(service, requests, kind):
        return response  # the only one
    raise invalid("The stream has no message.")


async def bidi_write_object(
    service: StorageService, requests: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """The same with answers on the way, and the writing of objects that stay open."""
    kind = storage_messages()["BidiWriteObjectResponse"]
    async for response in _written(service, requests, kind):
        yield response


async def _written(
    service: StorageService, requests: AsyncIterator[Any], kind: Any
) -> AsyncIterator[Any]:
    first = await anext(requests, None)
    if first is None:
        return
    match first.WhichOneof("first_message"):
        case "upload_id":
            answers = _session_write(service, first, requests, kind)
        case "write_object_spec" if first.write_object_spec.appendable:
            if kind is not storage_messages()["BidiWriteObjectResponse"]:
                raise invalid("Appendable objects are written by BidiWriteObject.")
            answers = _append_new(service, first, requests)
        case "write_object_spec":
            answers = _single_write(service, first, requests, kind)
        case "append_object_spec":
            answers = _append_existing(service, first, requests)
        case _:
            raise invalid("The first message must say what is written.")
    async for answer in answers:
        yield answer


async def _single_write(
    service: StorageService, first: Any, requests: AsyncIterator[Any], kind: Any
) -> AsyncIterator[Any]:
    """Write a whole object in this one stream; nothing is kept of a stream that breaks off."""
    spec = first.write_object_spec
    declared = spec.object_size if spec.HasField("object_size") else None
    new = new_object(spec, declared_bytes=declared)
    data_key, new = with_default_key(service, new)
    incoming = service.objects.bodies.receive()
    incoming.encrypt(data_key)
    try:
        async for request in _and_then(first, requests):
            await _receive(incoming, request)
            hashes = _merged(new.expected, request)
            new = replace(new, expected=hashes)
            if request.finish_write:
                _check_declared(declared, incoming.size_bytes)
                body = await seal_body(service, incoming, new.expected)
                stored = await service.commit(service.objects.publish, new, body)
                yield kind(resource=object_message(stored))
                return
            if _wants_state(request):
                yield kind(persisted_size=incoming.size_bytes)
    finally:
        incoming.discard()
    raise invalid("The stream has ended without finish_write.")


async def _session_write(
    service: StorageService, first: Any, requests: AsyncIterator[Any], kind: Any
) -> AsyncIterator[Any]:
    """Write the next bytes of a session; received bytes stay however the stream ends."""
    upload_id = first.upload_id
    async with service.turns.take(upload_id):
        published = service.objects.uploads.result(upload_id)
        if published is not None:
            yield kind(resource=object_message(published))
            return
        upload = service.objects.uploads.open(upload_id)
        expected = upload.new.expected
        try:
            async for request in _and_then(first, requests):
                await _receive(upload.body, request)
                expected = _merged(expected, request)
                if request.finish_write:
                    stored = await _finish_session(service, upload, expected)
                    yield kind(resource=object_message(stored))
                    return
                if _wants_state(request):
                    await _record(service, upload)
                    yield kind(persisted_size=upload.body.size_bytes)
            await _record(service, upload)
            yield kind(persisted_size=upload.body.size_bytes)
        except (asyncio.CancelledError, GeneratorExit, StorageError):
            await asyncio.shield(asyncio.ensure_future(_record(service, upload)))
            raise
        finally:
            upload.body.close()


async def _finish_session(
    service: StorageService, upload: UploadSession, expected: Hashes
) -> StoredObject:
    """Publish the object; a refused one ends its session."""
    try:
        _check_declared(upload.new.declared_bytes, upload.body.size_bytes)
        body = await seal_body(service, upload.body, expected)
        publish = service.objects.publish
        return await service.commit(publish, upload.new, body, upload_id=upload.id)
    except StorageError as error:
        if error.code < 500:  # noqa: PLR2004
            await service.commit(service.objects.uploads.cancel, upload.id)
        raise


async def _record(service: StorageService, upload: UploadSession) -> None:
    if upload.body.path.exists():
        await asyncio.to_thread(upload.body.sync)
        await service.commit(service.objects.uploads.checkpoint, upload)


async def _append_new(
    service: StorageService, first: Any, requests: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """Begin an object that stays open, at once and empty, and append to it."""
    new = new_object(first.write_object_spec)
    stored = await service.commit(service.objects.appends.begin, new)
    async for answer in _append(service, stored, first, requests):
        yield answer


async def _append_existing(
    service: StorageService, first: Any, requests: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """Append to an open object, in the place of the one who did so before."""
    spec = first.append_object_spec
    key = ObjectKey(bucket_name(spec.bucket), spec.object_, spec.generation)
    stored = service.objects.appends.find(key, conditions(spec))
    async for answer in _append(service, stored, first, requests):
        yield answer


async def _append(
    service: StorageService, stored: StoredObject, first: Any, requests: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """Append what comes; what has been flushed is in the object, also when the stream breaks."""
    writers = _WRITERS.setdefault(service.objects, AppendWriters())
    handle = writers.take_over(stored.generation)
    appending = _Appending(service, stored, writers, handle)
    answer = _bidi_answer(stored)
    answer.write_handle.handle = handle
    yield answer
    try:
        async for request in _and_then(first, requests):
            if await appending.take(request):
                yield _bidi_answer(await appending.finalize(request))
                return
            if request.flush:
                await appending.flush()
            if request.state_lookup:
                yield appending.state()
        if await appending.flush():
            yield appending.state()
    except (asyncio.CancelledError, GeneratorExit):
        await asyncio.shield(asyncio.ensure_future(appending.flush()))
        raise
    finally:
        appending.incoming.discard()
        writers.leave(stored.generation, handle)


class _Appending:
    """One stream that appends to an object: the bytes that have come and are not in it yet."""

    def __init__(
        self, service: StorageService, stored: StoredObject, writers: AppendWriters, handle: bytes
    ) -> None:
        self.stored = stored
        self.incoming = service.objects.bodies.receive()
        self._service = service
        self._writers = writers
        self._handle = handle

    async def take(self, request: Any) -> bool:
        """Receive the bytes of a message; whether it is the last one of the object."""
        self._check()
        await _receive(self.incoming, request, behind=self.stored.size_bytes)
        return bool(request.finish_write)

    async def flush(self) -> bool:
        """Put what has come into the object; whether there was anything."""
        incoming = self.incoming
        if not incoming.size_bytes:
            return False
        self._check()
        self.incoming = self._service.objects.bodies.receive()
        body = await seal_body(self._service, incoming, Hashes(wants_md5=False))
        extend = self._service.objects.appends.extend
        self.stored = await self._service.commit(extend, self._key, body)
        return True

    async def finalize(self, request: Any) -> StoredObject:
        """Put everything into the object and close it for good."""
        await self.flush()
        expected = _merged(Hashes(), request)
        finalize = self._service.objects.appends.finalize
        return await self._service.commit(finalize, self._key, expected.crc32c)

    def state(self) -> Any:
        """How much of the object is in it, with the checksum of that."""
        answer = storage_messages()["BidiWriteObjectResponse"](
            persisted_size=self.stored.size_bytes
        )
        answer.persisted_data_checksums.crc32c = crc32c_number(self.stored.crc32c)
        answer.write_handle.handle = self._handle
        return answer

    @property
    def _key(self) -> ObjectKey:
        return ObjectKey(self.stored.bucket, self.stored.name, self.stored.generation)

    def _check(self) -> None:
        self._writers.check(self.stored.generation, self._handle)


async def _receive(incoming: IncomingBody, request: Any, behind: int = 0) -> None:
    """Take the bytes of a message, which follow those that are there; some may come again."""
    if request.WhichOneof("data") is None:
        return
    data, checksummed = request.checksummed_data.content, request.checksummed_data
    if checksummed.HasField("crc32c") and google_crc32c.value(data) != checksummed.crc32c:
        raise invalid("The checksum of the data differs from the one that was sent with it.")
    known = behind + incoming.size_bytes - request.write_offset
    if known < 0 or request.write_offset < 0:
        raise StorageError(
            416,
            "outOfRange",
            f"The write offset is {request.write_offset}, but"
            f" {behind + incoming.size_bytes} byte(s) have come.",
        )
    if request.write_offset + len(data) > MAX_OBJECT_BYTES:
        raise invalid(f"An object has at most {MAX_OBJECT_BYTES} bytes.")
    await receive_data(incoming, data[known:] if known else data)


async def _and_then(first: Any, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    yield first
    async for request in requests:
        yield request


def _merged(expected: Hashes, request: Any) -> Hashes:
    """The expected checksums, those of a message before earlier ones."""
    late = expected_hashes(request.object_checksums)
    return replace(expected, crc32c=late.crc32c or expected.crc32c, md5=late.md5 or expected.md5)


def _wants_state(request: Any) -> bool:
    """Whether a message of BidiWriteObject asks how far it is."""
    return bool(getattr(request, "state_lookup", False))


def _check_declared(declared: int | None, received_bytes: int) -> None:
    if declared not in (None, received_bytes):
        raise invalid(f"object_size was {declared}, but {received_bytes} byte(s) were written.")


def _bidi_answer(stored: StoredObject) -> Any:
    return storage_messages()["BidiWriteObjectResponse"](resource=object_message(stored))
