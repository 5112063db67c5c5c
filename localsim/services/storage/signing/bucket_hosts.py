"""Requests to a bucket's own host: `BUCKET.localhost:PORT` stands for `/BUCKET` of the port.

Names below `localhost` are addresses of this machine (RFC 6761), so no web page elsewhere has one.
"""

import re

from aiohttp import web
from aiohttp.typedefs import Handler
from yarl import URL

from localsim.services.storage.signing.signed_requests import HOST_BUCKET

_HOST = re.compile(r"([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])\.(localhost(?::[0-9]+)?)", re.IGNORECASE)


@web.middleware
async def split_bucket_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Serve a request to a bucket's own host as one for its path."""
    hosts = request.headers.getall("Host", [])
    match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if match is None or not request.raw_path.startswith("/"):
        return await handler(request)
    bucket = match[1].lower()
    headers = request.headers.copy()
    headers["Host"] = match[2]
    url = URL(f"/{bucket}{request.raw_path}", encoded=True)
    split = request.clone(rel_url=url, headers=headers)
    split[HOST_BUCKET] = (hosts[0], request.raw_path.partition("?")[0], bucket)
    return await handler(split)
