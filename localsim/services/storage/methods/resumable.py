"""Resumable uploads: start, continue, query, cancel."""

import asyncio
import re
from dataclasses import dataclass
from urllib.parse import urlencode

from aiohttp import web

from localsim.rules.objects.files.body_directory import IncomingBody
from localsim.rules.objects.storage_model import (
    Hashes,
    StorageError,
    StoredObject,
    invalid,
    not_implemented,
)
from localsim.rules.objects.upload_sessions import ChunkError, SmallChunkError, UploadSession
from localsim.services.storage.methods.single_uploads import (
    check_length,
    check_size,
    new_object,
    receive_data,
    receive_large,
    seal_body,
    upload_reply,
)
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.json_requests import (
    StorageCall,
    expected_hashes,
    parse_int64,
    read_json_body,
    required_parameter,
)

CHUNK_UNIT_BYTES = 256 * 1024
"""The least that a request may bring unless it brings the last bytes."""

_CONTENT_RANGE = re.compile(r"bytes\s+(?:([0-9]{1,18})-([0-9]{1,18}|\*)|\*)/([0-9]{1,18}|\*)")


@dataclass(frozen=True, slots=True)
class Chunk:
    """The bytes of the object that a request carries; a status query carries none."""

    first: int | None
    end: int | None = None
    total_bytes: int | None = None
    is_whole_rest: bool = False


async def start_resumable(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Open a session; its URL names the host that the client used."""
    headers = call.request.headers
    declared = headers.get("X-Upload-Content-Length", "")
    new = new_object(
        call,
        await read_json_body(call.request),
        headers.get("X-Upload-Content-Type"),
        parse_int64(declared) if declared.isdecimal() else None,
    )
    upload_id = await service.commit(service.objects.uploads.start, new)
    call.trace.note_session(upload_id, new.name)
    query = urlencode({**call.query, "upload_id": upload_id})
    location = f"{call.origin}{call.request.raw_path.partition('?')[0]}?{query}"
    return web.Response(headers={"Location": location, "X-GUploader-UploadID": upload_id})


async def continue_resumable(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Take the next bytes of a session, or say how many are there."""
    upload_id = required_parameter(call.query, "upload_id")
    check_length(call.request.headers)
    if call.request.headers.get("Content-Encoding", "identity") != "identity":
        raise not_implemented("A compressed request of a resumable upload")
    try:
        chunk = chunk_of(call.request)
    except SmallChunkError as error:
        async with service.turns.take(upload_id):
            await service.commit(service.objects.uploads.refuse, upload_id, error.message)
        raise
    async with service.turns.take(upload_id):
        call.trace.note_session(upload_id, call.query.get("name", ""))
        published = service.objects.uploads.result(upload_id)
        if published is not None:
            return upload_reply(call, published)
        received_bytes = await _append(service, call, upload_id, chunk)
        if chunk.is_whole_rest or chunk.total_bytes == received_bytes:
            return upload_reply(call, await _finish(service, call, upload_id))
    return _incomplete(call.request, received_bytes)


async def cancel_resumable(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Delete a session and its bytes."""
    upload_id = required_parameter(call.query, "upload_id")
    async with service.turns.take(upload_id):
        await service.commit(service.objects.uploads.cancel, upload_id)
    return web.Response(status=499, reason="Client Closed Request")


def chunk_of(request: web.Request) -> Chunk:
    """The chunk that Content-Range describes; without the header it is the whole object."""
    header = request.headers.get("Content-Range")
    if header is None:
        return Chunk(first=0, is_whole_rest=True)
    match = _CONTENT_RANGE.fullmatch(header.strip())
    if match is None:
        raise _invalid_range(header)
    check_size(match[3])
    first, last, total = (None if text in (None, "*") else int(text) for text in match.groups())
    end = total if last is None else last + 1
    if first is not None and end is not None and not first < end <= (total or end):
        raise _invalid_range(header)
    # `bytes 0-*/*`, as Node.js streams: whatever comes until the body ends, and that is all.
    chunk = Chunk(first, end, total, is_whole_rest=first is not None and end is None)
    _check_size(request, chunk)
    return chunk


def _check_size(request: web.Request, chunk: Chunk) -> None:
    """Refuse a body of another size than it says, or too small a one; a status query has none."""
    if chunk.first is None or chunk.end is None:
        return
    size_bytes = chunk.end - chunk.first
    if request.content_length not in (None, size_bytes):
        raise _wrong_size(chunk, request.content_length or 0)
    if chunk.end != chunk.total_bytes and size_bytes < CHUNK_UNIT_BYTES:
        raise SmallChunkError(
            "Invalid request.  The number of bytes uploaded is required to be equal or greater"
            f" than {CHUNK_UNIT_BYTES}, except for the final request (it's recommended to be the"
            f" exact multiple of {CHUNK_UNIT_BYTES}).  The received request contained"
            f" {size_bytes} bytes, which does not meet this requirement."
        )


def _wrong_size(chunk: Chunk, received_bytes: int) -> StorageError:
    first, end = chunk.first or 0, chunk.end or 0
    return ChunkError(
        f"Invalid request.  There were {received_bytes} byte(s) in the request body.  There should"
        f" have been {end - first} byte(s) (starting at offset {first} and ending at offset"
        f" {end - 1}) according to the Content-Range header."
    )


def _invalid_range(header: str) -> StorageError:
    return ChunkError(f"Failed to parse Content-Range header: {header!r}.")


async def _append(service: StorageService, call: StorageCall, upload_id: str, chunk: Chunk) -> int:
    """Receive the chunk; received bytes stay however the request ends."""
    upload = service.objects.uploads.open(upload_id)
    try:
        _check_total(upload, chunk)
        if chunk.first is not None:
            await call.trace.begin_upload(
                upload.new.name,
                total_bytes=chunk.total_bytes or upload.new.declared_bytes,
                upload_id=upload_id,
                position=chunk.first,
            )
            work = _receive_chunk(service, call, upload.body, chunk)
            await service.turns.receive(upload_id, work)
    finally:
        try:
            await _record(service, upload)
        except StorageError:
            # What is not on record is dropped: the disk may be full of it, and nobody come again.
            service.objects.uploads.open(upload_id).body.close()
            raise
    return upload.body.size_bytes


async def _record(service: StorageService, upload: UploadSession) -> None:
    """Make the received bytes durable, and record how many there are."""
    try:
        await asyncio.to_thread(upload.body.sync)
    finally:
        upload.body.close()
    await service.commit(service.objects.uploads.checkpoint, upload)


def _check_total(upload: UploadSession, chunk: Chunk) -> None:
    """Refuse a size of the whole that contradicts what was said, or sent, before."""
    declared, total = upload.new.declared_bytes, chunk.total_bytes
    if total is None:
        return
    if declared not in (None, total):
        message = f"X-Upload-Content-Length was {declared}, but Content-Range says {total}."
        raise ChunkError(f"Invalid request.  {message}")
    if total < upload.body.size_bytes:
        message = f"{upload.body.size_bytes} byte(s) are uploaded, Content-Range says {total}."
        raise ChunkError(f"Invalid request.  {message}")


async def _receive_chunk(
    service: StorageService, call: StorageCall, body: IncomingBody, chunk: Chunk
) -> None:
    """Append the bytes that are new: a client may send again what it does not know to be there."""
    first = chunk.first or 0
    known = body.size_bytes - first
    if known < 0:
        raise StorageError(
            503,
            "backendError",
            "Invalid request. According to the Content-Range header, the upload offset is"
            f" {first} byte(s), which exceeds already uploaded size of {body.size_bytes} byte(s).",
        )
    sent_bytes = 0
    async for data in call.chunks():
        sent_bytes += len(data)
        fresh = data[known:] if known < len(data) else b""
        known = max(0, known - len(data))
        if chunk.end is not None and first + sent_bytes > chunk.end:
            raise _wrong_size(chunk, sent_bytes)
        await receive_data(body, fresh)
        if not known:
            sent_bytes += await receive_large(service, call, body)
    if chunk.end is not None and first + sent_bytes < chunk.end:
        raise _wrong_size(chunk, sent_bytes)


async def _finish(service: StorageService, call: StorageCall, upload_id: str) -> StoredObject:
    """Publish the object; a refused one ends its session, a failure of the service does not."""
    upload = service.objects.uploads.open(upload_id)
    try:
        if upload.new.declared_bytes not in (None, upload.body.size_bytes):
            raise invalid(
                f"Invalid request.  X-Upload-Content-Length was {upload.new.declared_bytes}, but"
                f" {upload.body.size_bytes} byte(s) were uploaded."
            )
        late, early = expected_hashes({}, call), upload.new.expected
        expected = Hashes(
            late.crc32c or early.crc32c, late.md5 or early.md5, wants_md5=late.wants_md5
        )
        await call.trace.end_body()
        body = await seal_body(service, upload.body, expected)
        publish = service.objects.publish
        stored = await service.commit(publish, upload.new, body, upload_id=upload_id)
        call.trace.note_object(stored)
        return stored
    except StorageError as error:
        if error.code < 500:  # noqa: PLR2004
            await service.commit(service.objects.uploads.cancel, upload_id)
        raise
    finally:
        upload.body.close()


def _incomplete(request: web.Request, received_bytes: int) -> web.Response:
    """A 308 Resume Incomplete, or its disguise for clients that would follow a redirect."""
    headers = {"Range": f"bytes=0-{received_bytes - 1}"} if received_bytes else {}
    if request.headers.get("X-GUploader-No-308", "").lower() == "yes":
        return web.Response(headers={**headers, "X-HTTP-Status-Code-Override": "308"})
    return web.Response(status=308, reason="Resume Incomplete", headers=headers)
