"""The object methods of the XML API: PUT, GET, HEAD and DELETE, and the copy that is a PUT."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import partial
from urllib.parse import quote

from aiohttp import web

from localsim.rules.objects.encryption.customer_keys import without_checksums
from localsim.rules.objects.files.body_directory import IncomingBody, ObjectBody
from localsim.rules.objects.object_copies import Converted
from localsim.rules.objects.storage_model import (
    Hashes,
    NewObject,
    ObjectKey,
    StorageError,
    StoredObject,
    check_object_name,
)
from localsim.services.storage.methods.conversions import commit_copy
from localsim.services.storage.methods.downloads import send_media
from localsim.services.storage.methods.single_uploads import (
    data_key_of,
    receive_data,
    receive_large,
    seal_body,
    upload_keys,
    with_encryption,
)
from localsim.services.storage.resources.object_resources import (
    hash_header,
    media_headers,
    timestamp,
)
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.encryption_headers import key_headers
from localsim.services.storage.wire.json_requests import StorageCall, expected_hashes
from localsim.services.storage.xml.documents import xml_response
from localsim.services.storage.xml.xml_requests import (
    copy_source,
    described_properties,
    etag_of,
    extension_header,
)

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_REPLACE = "REPLACE"
_REPLACED = {
    "response-content-disposition": "Content-Disposition",
    "response-content-type": "Content-Type",
}
"""Parameter -> the header of a download that has its value."""


async def put_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Write an object, or make it a copy of the one that a header names."""
    source = copy_source(call.request.headers)
    if source is not None:
        return await _copy(service, call, source)
    bucket = service.buckets.get(call.bucket)
    new = new_object(call)
    keys = upload_keys(call, {})
    data_key, encryption = data_key_of(service.objects.protections.choose(bucket, keys))
    new = with_encryption(new, encryption)
    await call.trace.begin_upload(new.name, total_bytes=call.request.content_length)
    incoming = service.objects.bodies.receive()
    incoming.encrypt(data_key)
    try:
        body = await receive_body(service, call, incoming, new.expected)
        stored = await service.commit(_publish, service, call, new, body)
    finally:
        incoming.discard()
    call.trace.note_object(stored)
    return web.Response(headers=written_headers(stored))


async def get_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Send the object's bytes, or the range of them that was asked for; to HEAD only headers."""
    key = call.customer_key
    if call.request.method == "HEAD" and key is None:
        return _head_without_key(service, call)
    with service.objects.open(call.key, call.preconditions, key) as body:
        check_validators(call, body.stored, reading=True)
        return await send_media(call, body, partial(_downloaded_headers, call))


def _downloaded_headers(call: StorageCall, stored: StoredObject) -> dict[str, str]:
    """The headers of a download, some of which the query may replace."""
    replaced = {
        header: _of_one_line(call.query[name])
        for name, header in _REPLACED.items()
        if call.query.get(name)
    }
    return {**object_headers(stored), **replaced}


def _head_without_key(service: StorageService, call: StorageCall) -> web.Response:
    """The headers alone, for which no customer's key is needed, as for metadata in JSON."""
    stored = without_checksums(service.objects.get(call.key, call.preconditions, reading=True))
    check_validators(call, stored, reading=True)
    headers = {**object_headers(stored), "Content-Length": str(stored.size_bytes)}
    return web.Response(headers=headers)


async def delete_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Delete an object, or one generation of it for good."""

    def delete() -> None:
        check_validators(call, _live(service, call.key), reading=False)
        service.objects.delete(call.key, call.preconditions)

    await service.commit(delete)
    return web.Response(status=204)


def new_object(call: StorageCall) -> NewObject:
    """What the client wants written, checked before a byte of it is received."""
    check_object_name(call.key.name)
    return NewObject(
        bucket=call.bucket,
        name=call.key.name,
        properties=described_properties(call, call.request.headers),
        preconditions=call.preconditions,
        expected=expected_hashes({}, call),
    )


async def receive_body(
    service: StorageService, call: StorageCall, incoming: IncomingBody, expected: Hashes
) -> ObjectBody:
    """The bytes of the request, checked and durable; 400 BadDigest when they are others."""
    async for data in call.chunks():
        await receive_data(incoming, data)
        await receive_large(service, call, incoming)
    try:
        return await seal_body(service, incoming, expected)
    except StorageError as error:
        if error.code == 400:  # noqa: PLR2004
            message = "The Content-MD5 or x-goog-hash you specified did not match what we received."
            raise StorageError(400, "BadDigest", message, details=error.message) from None
        raise


def object_headers(stored: StoredObject) -> dict[str, str]:
    """The headers of an object: those of every download, custom metadata, and an ETag in quotes."""
    metadata = (stored.properties.get("metadata") or {}).items()
    custom = {f"x-goog-meta-{key}": value for key, value in metadata if _TOKEN.fullmatch(key)}
    headers = {**custom, **media_headers(stored), "ETag": etag_of(stored)}
    if stored.component_count is not None:
        headers["X-Goog-Component-Count"] = str(stored.component_count)
    # Metadata that came as JSON may hold what no header can.
    return {name: _of_one_line(value) for name, value in headers.items()}


def written_headers(stored: StoredObject) -> dict[str, str]:
    """The headers of the reply to an object that was written."""
    return {
        "ETag": etag_of(stored),
        "X-Goog-Generation": str(stored.generation),
        "X-Goog-Metageneration": str(stored.metageneration),
        "X-Goog-Hash": hash_header(stored),
        "X-Goog-Stored-Content-Encoding": stored.properties.get("contentEncoding", "identity"),
        "X-Goog-Stored-Content-Length": str(stored.size_bytes),
        **key_headers(stored.properties),
    }


def _publish(
    service: StorageService, call: StorageCall, new: NewObject, body: ObjectBody
) -> StoredObject:
    with service.objects.database.change():
        service.objects.bodies.keep(body)  # it goes if what follows refuses
        check_validators(call, _live(service, call.key), reading=False)
        return service.objects.publish(new, body)


def _live(service: StorageService, key: ObjectKey) -> StoredObject | None:
    try:
        return service.objects.get(key)
    except StorageError:
        return None


async def _copy(
    service: StorageService, call: StorageCall, source: ObjectKey
) -> web.StreamResponse:
    """The same bytes under another name, and the same metadata unless the client brings its own."""
    service.buckets.get(call.bucket)
    check_object_name(call.key.name)
    await call.trace.begin_copy()
    replaces = (
        extension_header(call.request.headers, "metadata-directive") or ""
    ).upper() == _REPLACE

    properties = described_properties(call, call.request.headers)
    new = NewObject(call.bucket, call.key.name, properties, call.preconditions)

    keys = call.encryption_keys

    def copy(converted: Converted) -> StoredObject:
        check_validators(call, _live(service, call.key), reading=False)
        return service.objects.copy(
            source,
            call.source_preconditions,
            new,
            keeps_metadata=not replaces,
            keys=keys,
            converted=converted,
        )

    stored = await commit_copy(service, copy)
    call.trace.note_object(stored)
    tree = (("LastModified", timestamp(stored.updated_s)), ("ETag", etag_of(stored)))
    response = xml_response("CopyObjectResult", tree)
    response.headers.update(written_headers(stored))
    return response


def _of_one_line(value: str) -> str:
    return value if value.isprintable() else quote(value, safe=" ")


def check_validators(call: StorageCall, found: StoredObject | None, *, reading: bool) -> None:
    """Check If-Match, If-None-Match and the conditions on dates by RFC 9110, section 13.2.2.

    Raises 412, or 304 for a reader who has what is there; dates are for readers only.
    """
    headers = call.request.headers
    if "If-Match" in headers:
        is_wanted = _is_among(headers["If-Match"], found)
    else:
        is_wanted = not (reading and _is_newer(headers, "If-Unmodified-Since", found, absent=False))
    if not is_wanted:
        raise _refused(412, found)
    if "If-None-Match" in headers:
        is_known = _is_among(headers["If-None-Match"], found)
    else:
        is_known = reading and not _is_newer(headers, "If-Modified-Since", found, absent=True)
    if is_known:
        raise _refused(304 if reading else 412, found)


def _is_among(header: str, found: StoredObject | None) -> bool:
    if found is None:
        return False
    etags = {etag.strip().removeprefix("W/").strip('"') for etag in header.split(",")}
    return not etags.isdisjoint({"*", etag_of(found).strip('"')})


def _is_newer(
    headers: Mapping[str, str], name: str, found: StoredObject | None, *, absent: bool
) -> bool:
    """Whether the object has changed since; `absent` where no date is given."""
    since_s = _seconds_of(headers.get(name))
    return absent if since_s is None or found is None else int(found.updated_s) > since_s


def _seconds_of(header: str | None) -> float | None:
    """The moment that a header names; one that is not a date is ignored (RFC 9110, 13.1.3)."""
    try:
        return None if header is None else parsedate_to_datetime(header).timestamp()
    except (ValueError, OverflowError):
        return None


def _refused(status: int, stored: StoredObject | None) -> StorageError:
    message = "At least one of the pre-conditions you specified did not hold."
    headers = None if stored is None else {"ETag": etag_of(stored)}
    return StorageError(status, "PreconditionFailed", message, headers=headers)
