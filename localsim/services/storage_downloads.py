"""Media downloads: whole objects and ranges of them, streamed."""

import asyncio
import io
import re
from dataclasses import dataclass
from typing import BinaryIO

from aiohttp import web

from localsim.cloud.objects_model import StorageError, StoredObject
from localsim.services.storage_requests import Call
from localsim.services.storage_resources import media_headers
from localsim.services.storage_service import Service

_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes from `start` up to, not including, `end`."""

    start: int
    end: int


class UnsatisfiableRangeError(StorageError):
    """The range begins behind the object's last byte."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(416, "requestedRangeNotSatisfiable", "Request range not satisfiable")
        self.headers = {"Content-Range": f"bytes */{size_bytes}"}


def requested_span(header: str | None, size_bytes: int) -> Span | None:
    """The one range a header asks for; None, the whole object, for any header that is not one."""
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
        raise UnsatisfiableRangeError(size_bytes)
    return Span(start, end)


async def download(service: Service, call: Call) -> web.StreamResponse:
    """Send the object's bytes, or the range of them that was asked for."""
    stored = service.objects.get(call.key, call.preconditions, reading=True)
    span = requested_span(call.request.headers.get("Range"), stored.size_bytes)
    with service.objects.open_body(stored) as body:
        response = _response(stored, span)
        await response.prepare(call.request)
        await _send(call.request, response, body, span or Span(0, stored.size_bytes))
    return response


def _response(stored: StoredObject, span: Span | None) -> web.StreamResponse:
    headers = media_headers(stored)
    if span is None:
        headers["Content-Length"] = str(stored.size_bytes)
        return web.StreamResponse(headers=headers)
    headers["Content-Length"] = str(span.end - span.start)
    headers["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{stored.size_bytes}"
    return web.StreamResponse(status=206, headers=headers)


async def _send(
    request: web.Request, response: web.StreamResponse, body: BinaryIO, span: Span
) -> None:
    size_bytes = span.end - span.start
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has gone")
    if isinstance(body, io.BufferedReader):  # a file: the kernel sends it
        await asyncio.get_running_loop().sendfile(transport, body, span.start, size_bytes)
    else:
        body.seek(span.start)
        await response.write(body.read(size_bytes))
    await response.write_eof()
