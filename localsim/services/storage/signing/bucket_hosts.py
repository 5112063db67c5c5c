"""Requests to a bucket's own host: `BUCKET.HOST` stands for `/BUCKET` of the XML API.

HOST is `storage.googleapis.com`, or `localhost:PORT`: names below `localhost` are addresses of this
machine (RFC 6761), so no web page elsewhere has one.
"""

import re

from aiohttp import web
from aiohttp.typedefs import Handler
from yarl import URL

from localsim.services.net.google_hosts import STORAGE_HOST, bucket_of_host
from localsim.services.storage.signing.signed_requests import HOST_BUCKET

_LOCAL = re.compile(r"([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])\.(localhost(?::[0-9]+)?)")


@web.middleware
async def split_bucket_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Serve a request to a bucket's own host as one for its path.

    It comes before the check of the host, which knows no buckets.
    """
    hosts = request.headers.getall("Host", [])
    found = _split(hosts[0].strip().lower()) if len(hosts) == 1 else None
    if found is None or not request.raw_path.startswith("/"):
        return await handler(request)
    bucket, host = found
    headers = request.headers.copy()
    headers["Host"] = host
    url = URL(f"/{bucket}{request.raw_path}", encoded=True)
    split = request.clone(rel_url=url, headers=headers)
    split[HOST_BUCKET] = (hosts[0], request.raw_path.partition("?")[0], bucket)
    return await handler(split)


def _split(host: str) -> tuple[str, str] | None:
    """The bucket that a host names, and the host without it."""
    bucket = bucket_of_host(host)
    if bucket is not None:
        return bucket, STORAGE_HOST
    match = _LOCAL.fullmatch(host)
    return None if match is None else (match[1], match[2])
