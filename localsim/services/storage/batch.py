"""Batches: many calls of the JSON API in one request, each answered for itself.

Every call goes in by the door that it would have come in by alone, so that guard, permissions and
faults see it. Framing: cloud.google.com/storage/docs/batch.
"""

import asyncio
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.typedefs import Handler
from multidict import CIMultiDict

from localsim.rules.objects.storage_model import StorageError, invalid, not_implemented
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.inner_requests import OVERRIDE, inner_request
from localsim.services.storage.wire.json_errors import error_response
from localsim.services.storage.wire.json_requests import StorageCall, read_all
from localsim.services.storage.wire.multipart import boundary_of
from localsim.services.storage.xml import dispatch as storage_xml

MOST_CALLS = 100
MOST_BYTES = 10 * 1024 * 1024
PATH = "/batch/storage/v1"

_REQUEST_LINE = re.compile(rb"([A-Z]+) (?:https?://[^/ ]+)?(/[^ ]*)(?: HTTP/1\.[01])?")
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_OF_MEDIA = re.compile(r"/(?:resumable/)?(?:upload|download|batch)/")


@dataclass(frozen=True, slots=True)
class BatchPart:
    """One call of a batch."""

    content_id: str | None
    method: str
    path: str
    headers: CIMultiDict[str]
    body: bytes


async def answer_batch(_service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Answer the calls in their order; raises StorageError when they cannot be told apart."""
    boundary = boundary_of(call.request.headers.get("Content-Type", ""))
    too_large = StorageError(413, "uploadTooLarge", f"A batch has at most {MOST_BYTES} bytes.")
    parts = list(parse_parts(await read_all(call.chunks(), MOST_BYTES, too_large), boundary))
    handler = _single_handler(call.request)
    answers = []
    for part in parts:
        answers.append(_written(part, await _answer(call.request, part, handler)))
        await asyncio.sleep(0)  # a reader never waits: a hundred would keep everybody else waiting
    mark = f"batch_{secrets.token_urlsafe(24)}"
    lines = [f"--{mark}\r\n".encode() + answer for answer in answers]
    body = b"".join([*lines, f"--{mark}--\r\n".encode()])
    return web.Response(body=body, headers={"Content-Type": f"multipart/mixed; boundary={mark}"})


def parse_parts(body: bytes, boundary: bytes) -> Iterator[BatchPart]:
    """The calls in a multipart body with CRLF or LF line ends; raises StorageError 400."""
    delimiter = re.compile(rb"(?:^|\r?\n)--" + re.escape(boundary) + rb"(--)?[ \t]*(?=\r?\n|$)")
    marks = list(islice(delimiter.finditer(body), MOST_CALLS + 2))
    if len(marks) > MOST_CALLS + 1:
        raise invalid(f"The batch has more than {MOST_CALLS} calls.")
    if len(marks) < 2 or not marks[-1][1]:  # noqa: PLR2004 (an opening one and the closing one)
        raise invalid("Failed to parse batch request: its boundaries are missing.")
    for here, following in zip(marks, marks[1:], strict=False):
        yield _part(body[here.end() : following.start()])
        if following[1]:
            return


def _part(text: bytes) -> BatchPart:
    outer, blank, inner = _split(text.lstrip(b"\r\n"))
    head, _, body = _split(inner)
    line, _, rest = head.partition(b"\n")
    request = _REQUEST_LINE.fullmatch(line.strip())
    if not blank or request is None:
        raise invalid("Failed to parse batch request: a part is not an HTTP request.")
    headers = _headers(rest)
    length = headers.get("Content-Length", "")
    if length.isdecimal():
        body = body[: int(length[:20])]
    content_id = _headers(outer).get("Content-ID")
    return BatchPart(content_id, request[1].decode(), request[2].decode("latin-1"), headers, body)


def _split(text: bytes) -> tuple[bytes, bytes, bytes]:
    """The text before the first empty line, and that after it."""
    blank = _BLANK_LINE.search(text)
    if blank is None:
        return text, b"", b""
    return text[: blank.start()], blank[0], text[blank.end() :]


def _headers(text: bytes) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict()
    for line in text.decode("latin-1").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            headers.add(name.strip(), value.strip())
    return headers


def _single_handler(request: web.Request) -> Handler:
    """The middleware that a single request passes."""
    handler: Handler = request.match_info.handler
    for middleware in reversed(request.app.middlewares):
        handler = partial(middleware, handler=handler)
    return handler


async def _answer(outer: web.Request, part: BatchPart, handler: Handler) -> web.Response:
    if _is_of_media(part.path):
        return error_response(not_implemented("Sending or receiving media in a batch"))
    response = await handler(_request(outer, part))
    if isinstance(response, web.Response):
        return response
    raise ConnectionResetError("the reply of a part has been sent")


def _is_of_media(raw_path: str) -> bool:
    """Whether it would send or receive media: its answer would go past the batch's."""
    path, _, query = raw_path.partition("?")
    asked = dict(parse_qsl(query, keep_blank_values=True)).get("alt")
    return asked == "media" or bool(_OF_MEDIA.match(path)) or storage_xml.is_xml_path(path)


def _request(outer: web.Request, part: BatchPart) -> web.Request:
    """The call as a request of its own: with the outer headers, where it has none itself."""
    headers = CIMultiDict(
        (name, value)
        for name, value in outer.headers.items()
        if not name.lower().startswith("content-") and name not in part.headers
    )
    headers.extend(part.headers)
    headers.popall(OVERRIDE, None)  # it might ask for media in a body that nobody has looked at
    return inner_request(outer, part.method, part.path, headers, part.body)


def _written(part: BatchPart, response: web.Response) -> bytes:
    """One part of the reply: the complete answer to one call."""
    body = response.body if isinstance(response.body, bytes) else b""
    lines = ["Content-Type: application/http"]
    if part.content_id is not None:
        lines.append(f"Content-ID: {_answering(part.content_id)}")
    lines += ["", f"HTTP/1.1 {response.status} {response.reason}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    if "Content-Length" not in response.headers:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body + b"\r\n"


def _answering(content_id: str) -> str:
    """The content id of an answer: `<response-X>` for `<X>`."""
    inner = content_id.strip().removeprefix("<").removesuffix(">")
    return f"<response-{inner}>"
