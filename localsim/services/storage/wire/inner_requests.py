"""Requests that stand for others: calls of a batch, a GET with a long query, a path that lacks
its base, a bucket in the name of the host.

Google's client behind gcloud and gsutil (apitools, `base_api.py`) sends a GET of more than 2,048
characters as a POST with `X-HTTP-Method-Override: GET` and its query as a form.
"""

import asyncio
import re

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.typedefs import Handler
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from localsim.rules.objects.storage_model import StorageError
from localsim.services.net.google_hosts import STORAGE_HOST, bucket_of_host
from localsim.services.storage.wire.json_errors import error_response
from localsim.services.storage.wire.json_requests import MAX_JSON_BYTES, read_all

OVERRIDE = "X-HTTP-Method-Override"
BASE = "/storage/v1"
_FORM = "application/x-www-form-urlencoded"
_MOST_QUERY_BYTES = 64 * 1024


def inner_request(
    outer: web.Request, method: str, path: str, headers: CIMultiDict[str], body: bytes = b""
) -> web.Request:
    """A request on the connection of another one, addressed to the same host."""
    headers["Host"] = outer.headers["Host"]
    headers["Content-Length"] = str(len(body))
    message = RawRequestMessage(
        method,
        path,
        HttpVersion11,
        CIMultiDictProxy(headers),
        (),
        should_close=False,
        compression=None,
        upgrade=False,
        chunked=False,
        url=URL(path, encoded=True),
    )
    loop = asyncio.get_running_loop()
    payload = StreamReader(outer.protocol, 2**16, loop=loop)
    payload.feed_data(body)
    payload.feed_eof()
    return web.Request(
        message,
        payload,
        outer.protocol,
        outer.writer,
        outer.task,
        loop,
        client_max_size=MAX_JSON_BYTES,
    )


_SHORT_PATH = re.compile(r"/b(?:/.*)?|/projects/[^/]+/(?:hmacKeys(?:/[^/]*)?|serviceAccount)", re.S)
VIRTUAL_HOST = web.RequestKey("VIRTUAL_HOST", tuple[str, str])
"""Key of a request -> host and raw path as they were sent, where the host named the bucket."""
_ON_LOOPBACK = re.compile(r"(.+)\.(localhost(?::[0-9]+)?)")
_BUCKET = re.compile(r"[a-z0-9._-]+")
"""Names below `localhost` are this machine's (RFC 6761): no web page elsewhere has one."""


@web.middleware
async def place_bucket(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Serve `https://BUCKET.storage.googleapis.com/PATH` as `/BUCKET/PATH`: the XML API.

    So is `http://BUCKET.localhost:PORT/PATH`. It comes before the check of the host, which knows
    neither of these names.
    """
    hosts = request.headers.getall("Host", [])
    bucket, host = _split_host(hosts[0]) if len(hosts) == 1 else ("", "")
    if not bucket or not request.raw_path.startswith("/"):
        return await handler(request)
    sent = (hosts[0].strip().lower(), request.raw_path)
    headers = CIMultiDict(request.headers)
    headers["Host"] = host
    request = request.clone(
        rel_url=URL(f"/{bucket}{request.raw_path}", encoded=True), headers=headers
    )
    request[VIRTUAL_HOST] = sent
    return await handler(request)


def _split_host(host: str) -> tuple[str, str]:
    """The bucket that a host names, and the host without it; nothing where it names none."""
    local = _ON_LOOPBACK.fullmatch(host.strip().lower())
    bucket, base = local.groups() if local else (bucket_of_host(host) or "", STORAGE_HOST)
    return (bucket, base) if _BUCKET.fullmatch(bucket) else ("", "")


@web.middleware
async def complete_path(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Serve `/b…` as `/storage/v1/b…`, and the slash behind the collection when a bucket is made.

    Google's client for Node.js takes STORAGE_EMULATOR_HOST for the whole base URL (`baseUrl` in
    nodejs-storage, src/storage.ts). No bucket is meant: a name has three characters or more.
    """
    sent, mark, query = request.raw_path.partition("?")
    path = sent.removeprefix("/") if sent.startswith("//") else sent  # that URL ended with a slash
    full = f"{BASE}{path}" if _SHORT_PATH.fullmatch(path) else sent
    if request.method == "POST" and full == f"{BASE}/b/":
        full = full.rstrip("/")
    if full != sent:
        request = request.clone(rel_url=URL(f"{full}{mark}{query}", encoded=True))
    return await handler(request)


@web.middleware
async def unfold_query(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Make the GET of such a POST; no other method of a request is ever overridden."""
    is_long_get = (
        request.method == "POST"
        and request.headers.get(OVERRIDE) == "GET"
        and request.content_type == _FORM
        and request.raw_path.startswith(f"{BASE}/")
    )
    if not is_long_get:
        return await handler(request)
    message = f"A query has at most {_MOST_QUERY_BYTES} bytes."
    too_large = StorageError(413, "uploadTooLarge", message)
    try:
        query = await read_all(request.content.iter_any(), _MOST_QUERY_BYTES, too_large)
    except StorageError as error:
        return error_response(error)
    headers = CIMultiDict(
        (name, value)
        for name, value in request.headers.items()
        if name.lower() != OVERRIDE.lower() and not name.lower().startswith("content-")
    )
    path = request.raw_path.partition("?")[0]
    long_path = f"{path}?{query.decode('latin-1')}"
    return await handler(inner_request(request, "GET", long_path, headers))
