"""Resumable uploads: start, continue, ask how far it came, cancel."""

import asyncio
import re
from dataclasses import dataclass
from urllib.parse import urlencode

from aiohttp import web

from localsim.cloud.objects_bodies import IncomingBody
from localsim.cloud.objects_model import Hashes, StorageError, StoredObject, invalid
from localsim.services.storage_requests import Call, expected_hashes, json_body, required
from localsim.services.storage_service import Service
from localsim.services.storage_uploads import created, new_object, receive, sealed

_CONTENT_RANGE = re.compile(r"bytes\s+(?:([0-9]{1,18})-([0-9]{1,18}|\*)|\*)/([0-9]{1,18}|\*)")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Which bytes of the object a request carries; a status query carries none."""

    first: int | None
    end: int | None = None
    total_bytes: int | None = None
    is_whole_rest: bool = False

    def ends_upload(self, received_bytes: int) -> bool:
        """Whether the object is whole with what has been received."""
        return self.is_whole_rest or self.total_bytes == received_bytes


async def start_resumable(service: Service, call: Call) -> web.StreamResponse:
    """Open a session; its URL names the host that the client used."""
    content_type = call.request.headers.get("X-Upload-Content-Type")
    new = new_object(call, await json_body(call.request), content_type)
    upload_id = await service.commits.run(lambda: service.objects.uploads.start(new))
    query = urlencode({**call.query, "upload_id": upload_id})
    location = f"{call.origin}{call.request.raw_path.partition('?')[0]}?{query}"
    return web.Response(headers={"Location": location, "X-GUploader-UploadID": upload_id})


async def continue_resumable(service: Service, call: Call) -> web.StreamResponse:
    """Take the next bytes of a session, or say how many are there."""
    upload_id = required(call.query, "upload_id")
    chunk = chunk_of(call.request)
    async with service.turns.take(upload_id):
        published = service.objects.uploads.result(upload_id)
        if published is not None:
            return created(call, published)
        received_bytes = await _append(service, call, upload_id, chunk)
        if chunk.ends_upload(received_bytes):
            return created(call, await _finish(service, call, upload_id))
    return _incomplete(call.request, received_bytes)


async def cancel_resumable(service: Service, call: Call) -> web.StreamResponse:
    """End a session and drop its bytes."""
    upload_id = required(call.query, "upload_id")
    async with service.turns.take(upload_id):
        await service.commits.run(lambda: service.objects.uploads.cancel(upload_id))
    return web.Response(status=499, reason="Client Closed Request")


def chunk_of(request: web.Request) -> Chunk:
    """Read Content-Range; without one the request carries all of the object."""
    header = request.headers.get("Content-Range")
    if header is None:
        return Chunk(first=0, is_whole_rest=True)
    match = _CONTENT_RANGE.fullmatch(header.strip())
    if match is None:
        raise invalid(f"Invalid Content-Range header: {header!r}")
    first, last, total = (None if text in (None, "*") else int(text) for text in match.groups())
    end = total if last is None else last + 1
    if first is not None and end is not None and end < first:
        raise invalid(f"Invalid Content-Range header: {header!r}")
    return Chunk(first, end, total)


async def _append(service: Service, call: Call, upload_id: str, chunk: Chunk) -> int:
    """Receive the chunk; what came of it stays, however the request ends."""
    upload = service.objects.uploads.open(upload_id)
    try:
        if chunk.first is not None:
            work = _receive_chunk(call, upload.body, chunk)
            await service.turns.receive(upload_id, work)
    finally:
        await asyncio.to_thread(upload.body.sync)
        upload.body.close()
        await service.commits.run(lambda: service.objects.uploads.checkpoint(upload))
    return upload.body.size_bytes


async def _receive_chunk(call: Call, body: IncomingBody, chunk: Chunk) -> None:
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
    async for data in call.chunks():
        fresh = data[known:] if known < len(data) else b""
        known = max(0, known - len(data))
        if chunk.end is not None and body.size_bytes + len(fresh) > chunk.end:
            raise invalid("The request has more bytes than its Content-Range header says.")
        await receive(body, fresh)


async def _finish(service: Service, call: Call, upload_id: str) -> StoredObject:
    """Publish the object; a refused one ends its session."""
    upload = service.objects.uploads.open(upload_id)
    try:
        late, early = expected_hashes({}, call.request), upload.new.expected
        expected = Hashes(late.crc32c or early.crc32c, late.md5 or early.md5)
        body = await sealed(service, upload.body, expected)
        return await service.commits.run(
            lambda: service.objects.publish(upload.new, body, upload_id=upload_id)
        )
    except StorageError:
        await service.commits.run(lambda: service.objects.uploads.cancel(upload_id))
        raise
    finally:
        upload.body.close()


def _incomplete(request: web.Request, received_bytes: int) -> web.Response:
    """308 Resume Incomplete, or its disguise for clients that would follow it as a redirect."""
    headers = {"Range": f"bytes=0-{received_bytes - 1}"} if received_bytes else {}
    if request.headers.get("X-GUploader-No-308", "").lower() == "yes":
        return web.Response(headers={**headers, "X-HTTP-Status-Code-Override": "308"})
    return web.Response(status=308, reason="Resume Incomplete", headers=headers)
