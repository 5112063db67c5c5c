"""Uploads in one request: media and multipart, streamed into the store, published when whole."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from aiohttp import web

from localsim.rules.objects.encryption.protections import NO_KEYS, Protection, RequestKeys
from localsim.rules.objects.files.body_cipher import new_data_key
from localsim.rules.objects.files.body_directory import IncomingBody, ObjectBody
from localsim.rules.objects.lifetime.object_retention import RETENTION
from localsim.rules.objects.object_copies import MAX_OBJECT_BYTES
from localsim.rules.objects.properties import KMS_KEY_NAME, writable_properties
from localsim.rules.objects.storage_model import (
    Bucket,
    Hashes,
    NewObject,
    StorageError,
    StoredObject,
    check_object_name,
    not_implemented,
)
from localsim.services.storage.body_process import left_bytes, take_over
from localsim.services.storage.resources.access_resources import asked_access, require_permission
from localsim.services.storage.resources.object_resources import hash_header, object_reply
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.gunzip import gunzip_chunks
from localsim.services.storage.wire.json_errors import ParameterError, missing_parameter
from localsim.services.storage.wire.json_requests import (
    CONTENT_SHA256,
    DEFAULT_TYPE,
    StorageCall,
    expected_hashes,
    parse_json_object,
    required_parameter,
)
from localsim.services.storage.wire.multipart import RelatedParser, boundary_of


async def insert_media(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Write an object whose bytes are the body and whose name is in the query."""
    resource = {"name": required_parameter(call.query, "name")}
    new = new_object(call, resource, call.request.headers.get("Content-Type"))
    return await _insert(service, call, None, lambda: new, lambda: resource)


async def insert_multipart(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Write an object from a body of two parts: its resource and its bytes."""
    parser = RelatedParser(boundary_of(call.request.headers.get("Content-Type", "")))

    def described() -> NewObject:
        parser.check_end()
        return new_object(call, parse_json_object(parser.metadata or b""), parser.media_type)

    def resource_of() -> Mapping[str, Any] | None:
        return None if parser.metadata is None else parse_json_object(parser.metadata)

    return await _insert(service, call, parser.feed, described, resource_of)


async def _insert(
    service: StorageService,
    call: StorageCall,
    media_of: Callable[[bytes], bytes] | None,
    described: Callable[[], NewObject],
    resource_of: Callable[[], Mapping[str, Any] | None],
) -> web.StreamResponse:
    """Store the media of the body as the object that `described` returns once all has come.

    Without `media_of` the body is the media. `resource_of` returns the resource once it has come,
    which is before the media.
    """
    bucket = service.buckets.get(call.bucket)
    incoming = service.objects.bodies.receive()
    encryption: dict[str, Any] | None = None
    try:
        if media_of is None:
            encryption = await _begin(service, call, bucket, incoming, resource_of() or {})
        async for data in _media(call):
            media = data if media_of is None else media_of(data)
            if encryption is None and (resource := resource_of()) is not None:
                encryption = await _begin(service, call, bucket, incoming, resource)
            await receive_data(incoming, media)
            if media_of is None:
                await receive_large(service, call, incoming)
        new = with_encryption(described(), encryption)
        body = await seal_body(service, incoming, new.expected)
        stored = await service.commit(service.objects.publish, new, body)
        call.trace.note_object(stored)
    finally:
        incoming.discard()
    return upload_reply(call, stored)


async def _begin(
    service: StorageService,
    call: StorageCall,
    bucket: Bucket,
    incoming: IncomingBody,
    resource: Mapping[str, Any],
) -> dict[str, Any]:
    """Before any media comes: note the upload, and choose how its bytes are encrypted."""
    name = str(call.query.get("name") or resource.get("name") or "")
    if name:
        await call.trace.begin_upload(name, total_bytes=call.request.content_length)
    keys = upload_keys(call, resource)
    data_key, properties = data_key_of(service.objects.protections.choose(bucket, keys))
    incoming.encrypt(data_key)
    return properties


def upload_keys(call: StorageCall, resource: Mapping[str, Any]) -> RequestKeys:
    """The keys that came for a new object; the query counts before the resource."""
    named = call.kms_key_name or named_key(resource)
    return RequestKeys(call.customer_key, kms_key_name=named)


def named_key(resource: Mapping[str, Any]) -> str:
    """The key of Cloud KMS that a resource asks for; that of a version is only what was read."""
    name = str(resource.get(KMS_KEY_NAME) or "")
    return "" if "/cryptoKeyVersions/" in name else name


def data_key_of(protection: Protection | None) -> tuple[bytes | None, dict[str, Any]]:
    """A new key for a body that is protected, and the properties of its object; else neither."""
    if protection is None:
        return None, {}
    data_key = new_data_key()
    return data_key, protection.properties([data_key])


def with_default_key(service: StorageService, new: NewObject) -> tuple[bytes | None, NewObject]:
    """A key for the bytes of a new object, and the object with it, where its bucket has a key."""
    bucket = service.buckets.get(new.bucket)
    data_key, encryption = data_key_of(service.objects.protections.choose(bucket, NO_KEYS))
    return data_key, with_encryption(new, encryption)


def with_encryption(new: NewObject, encryption: Mapping[str, Any] | None) -> NewObject:
    """The object with the properties that say how its bytes are encrypted, where they are."""
    return replace(new, properties={**new.properties, **encryption}) if encryption else new


def new_object(
    call: StorageCall,
    resource: Mapping[str, Any],
    media_type: str | None,
    declared_bytes: int | None = None,
) -> NewObject:
    """The object that the client asks to write; the query's name counts before the resource's."""
    check_agreement(resource, bucket=call.bucket, name=call.query.get("name"))
    name = call.query.get("name") or resource.get("name")
    if not isinstance(name, str) or not name:
        raise missing_parameter("name")
    check_object_name(name)
    given = {"contentType": media_type or DEFAULT_TYPE, **resource}
    if "contentEncoding" in call.query:
        given["contentEncoding"] = call.query["contentEncoding"]
    properties = writable_properties(given)
    properties.pop(KMS_KEY_NAME, None)
    if RETENTION in properties:
        require_permission(call, "storage.objects.setRetention")
    return NewObject(
        bucket=call.bucket,
        name=name,
        properties=properties | asked_access(call, resource),
        preconditions=call.preconditions,
        expected=expected_hashes(resource, call),
        declared_bytes=declared_bytes,
    )


def check_agreement(resource: Mapping[str, Any], **parameters: str | None) -> None:
    """Refuse a resource that names another bucket or object than the request; ParameterError."""
    for name, value in parameters.items():
        given = resource.get(name)
        if given and value and given != value:
            message = (
                f"Value '{given}' in content does not agree with value '{value}'. This can happen"
                " when a value set through a parameter is inconsistent with a value set in the"
                " request."
            )
            raise ParameterError(name, message)


def check_length(headers: Mapping[str, str]) -> None:
    """Refuse an upload without a length (411), or of a size that no object can have (413)."""
    if "Content-Length" not in headers and "Transfer-Encoding" not in headers:
        message = "You must provide the Content-Length HTTP header."
        raise StorageError(411, "lengthRequired", message)
    for name in ("Content-Length", "X-Upload-Content-Length"):
        check_size(headers.get(name, ""))


def check_size(text: str) -> None:
    """Refuse a size, as a header gives it, that no object can have (413)."""
    if text.isdecimal() and int(text[:20]) > MAX_OBJECT_BYTES:
        message = f"The upload is larger than the {MAX_OBJECT_BYTES} bytes that an object may have."
        raise StorageError(413, "uploadTooLarge", message)


def _media(call: StorageCall) -> AsyncIterator[bytes]:
    """The body; a Content-Encoding of the request is that of the way here, not of the object."""
    encoding = call.request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "gzip":
        return gunzip_chunks(call.chunks())
    if encoding != "identity":
        raise not_implemented(f"A request with Content-Encoding: {encoding}")
    return call.chunks()


async def receive_large(service: StorageService, call: StorageCall, incoming: IncomingBody) -> int:
    """Let another process receive what is left of the body, when that is much; say how much."""
    before = incoming.size_bytes
    receiver = service.body_process
    is_watched = call.effects is not None or call.trace.needs_bytes
    is_seen = is_watched or incoming.data_keys or CONTENT_SHA256 in call.request
    if receiver is None or is_seen or not left_bytes(call.request):
        return 0
    with take_over(call.request) as (received, client):
        await call.trace.pass_bytes(len(received))
        await receive_data(incoming, received)
        size_bytes = (call.request.content_length or 0) - call.request.content.total_bytes
        await receiver.receive(client, incoming, size_bytes)
        await call.trace.pass_bytes(size_bytes)
    return incoming.size_bytes - before


async def receive_data(incoming: IncomingBody, data: bytes) -> None:
    """Write bytes at once; the flush to disk runs meanwhile."""
    flush = incoming.write(data)
    if flush is not None:
        await asyncio.wrap_future(flush)


async def seal_body(
    service: StorageService, incoming: IncomingBody, expected: Hashes
) -> ObjectBody:
    """Check the body and make it durable, in a thread when that blocks."""
    if incoming.is_on_disk:
        return await asyncio.to_thread(service.objects.bodies.seal, incoming, expected)
    return service.objects.bodies.seal(incoming, expected)


def upload_reply(call: StorageCall, stored: StoredObject) -> web.Response:
    """The reply to a finished upload."""
    return object_reply(call, stored, {"X-Goog-Hash": hash_header(stored)}, is_senders=True)
