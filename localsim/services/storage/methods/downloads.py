"""Media downloads: whole objects and ranges, streamed, unpacked where Google does."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping

from aiohttp import HttpVersion11, web

from localsim.rules.objects.storage_model import StorageError, StoredObject
from localsim.rules.objects.store import BodyPiece, OpenObject
from localsim.services.storage.resources.object_resources import media_headers
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.gunzip import MAGIC, gunzip_chunks
from localsim.services.storage.wire.json_requests import StorageCall

_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)


def _requested_bytes(header: str | None, size_bytes: int) -> range | None:
    """The offsets that a Range header asks for; None, the whole object, for other headers.

    Raises StorageError 416 where they begin behind the last byte.
    """
    match = _RANGE.fullmatch(header or "")
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size_bytes - int(last)), size_bytes
    else:
        start, end = int(first), min(int(last or size_bytes), size_bytes - 1) + 1
        if last and int(last) < start:
            return None
    if start >= size_bytes:
        raise StorageError(
            416,
            "requestedRangeNotSatisfiable",
            "Request range not satisfiable",
            headers={"Content-Range": f"bytes */{size_bytes}"},
        )
    return range(start, end)


_BLOCK_BYTES = 256 * 1024

Describe = Callable[[StoredObject], dict[str, str]]
"""The headers that say which object it is."""


async def download_object(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Send the object's bytes, or the range of them that was asked for."""
    with service.objects.open(call.key, call.preconditions, call.customer_key) as body:
        return await send_media(call, body)


async def send_media(
    call: StorageCall, body: OpenObject, describe: Describe = media_headers
) -> web.StreamResponse:
    """Stream an object to the client; raises ConnectionError when the client is gone."""
    if _is_to_be_unpacked(call.request, body):
        return await _send_unpacked(call, body, describe(body.stored))
    stored = body.stored
    asked = _requested_bytes(call.request.headers.get("Range"), stored.size_bytes)
    response = _response(stored, asked, describe(stored))
    if call.request.method != "HEAD":
        await call.trace.begin_download(len(asked or range(stored.size_bytes)))
    await response.prepare(call.request)
    if call.request.method != "HEAD":
        await _send(call, response, body, asked or range(stored.size_bytes))
    await response.write_eof()
    return response


def _response(
    stored: StoredObject, asked: range | None, headers: dict[str, str]
) -> web.StreamResponse:
    if asked is None:
        headers["Content-Length"] = str(stored.size_bytes)
        return web.StreamResponse(headers=headers)
    headers["Content-Length"] = str(len(asked))
    headers["Content-Range"] = f"bytes {asked.start}-{asked.stop - 1}/{stored.size_bytes}"
    return web.StreamResponse(status=206, headers=headers)


async def _send(
    call: StorageCall, response: web.StreamResponse, body: OpenObject, sent: range
) -> None:
    # asyncio's sendfile never ends over TLS once it had to wait.
    is_seen = call.effects is not None or call.trace.needs_bytes
    if is_seen or call.request.secure or body.is_encrypted:
        await _write(call, response, _blocks(body, sent))
        return
    for piece in body.pieces(sent.start, sent.stop):
        await _send_piece(call.request, response, piece)
        await call.trace.pass_bytes(piece.size_bytes)


async def _send_piece(request: web.Request, response: web.StreamResponse, piece: BodyPiece) -> None:
    if piece.file is None:
        await response.write(piece.data[piece.start : piece.start + piece.size_bytes])
        return
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has gone")
    # The kernel sends it.
    loop = asyncio.get_running_loop()
    await loop.sendfile(transport, piece.file, piece.start, piece.size_bytes)


async def _blocks(body: OpenObject, sent: range) -> AsyncIterator[bytes]:
    """The same bytes for whoever has to see them."""
    for piece in body.pieces(sent.start, sent.stop):
        for start in range(piece.start, piece.start + piece.size_bytes, _BLOCK_BYTES):
            size_bytes = min(_BLOCK_BYTES, piece.start + piece.size_bytes - start)
            if piece.file is None:
                yield piece.data[start : start + size_bytes]
            else:
                piece.file.seek(start)
                yield piece.file.read(size_bytes)


def _is_to_be_unpacked(request: web.Request, body: OpenObject) -> bool:
    """Decompressive transcoding: cloud.google.com/storage/docs/transcoding."""
    properties = body.stored.properties
    if properties.get("contentEncoding", "").lower() != "gzip" or _takes_gzip(request):
        return False
    if "no-transform" in properties.get("cacheControl", ""):
        return False
    return body.read(0, min(len(MAGIC), body.stored.size_bytes)) == MAGIC


def _takes_gzip(request: web.Request) -> bool:
    """Whether the client says that it unpacks gzip itself."""
    for coding in request.headers.get("Accept-Encoding", "").lower().split(","):
        name, _, weight = coding.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0")
    return False


async def _send_unpacked(
    call: StorageCall, body: OpenObject, described: Mapping[str, str]
) -> web.StreamResponse:
    """Of unknown length, so that ranges mean nothing."""
    headers = {
        **described,
        "Accept-Ranges": "none",
        "Vary": "Accept-Encoding",
        "Warning": "214 UploadServer gunzipped",
        "X-GUploader-Response-Body-Transformations": "gunzipped",
    }
    del headers["Content-Encoding"]
    response = web.StreamResponse(headers=headers)
    if call.request.method != "HEAD":
        await call.trace.begin_download(None)
    if call.request.version >= HttpVersion11:
        response.enable_chunked_encoding()
    else:
        response.force_close()
    await response.prepare(call.request)
    if call.request.method != "HEAD":
        plain = gunzip_chunks(_blocks(body, range(body.stored.size_bytes)))
        try:
            await _write(call, response, plain)
        except Exception as error:  # the reply has begun: there is no place for an error in it
            if call.request.transport is not None:
                call.request.transport.abort()
            raise ConnectionResetError("the reply broke off") from error
    await response.write_eof()
    return response


async def _write(
    call: StorageCall, response: web.StreamResponse, blocks: AsyncIterator[bytes]
) -> None:
    if call.effects is not None:
        await call.effects.send(response, call.trace.received(blocks))
        return
    async for block in call.trace.received(blocks):
        await response.write(block)
