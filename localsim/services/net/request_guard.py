"""The guard of every port: refuses web pages and requests for another host.

A web page can make a browser send requests to loopback addresses; it cannot forge Host (DNS
rebinding), it cannot hide Origin or Sec-Fetch-Site, and without being asked first the browser lets
it send no content type but those of HTML forms.
"""

from collections.abc import Callable, Iterable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from localsim.services.net.call_authority import FOREIGN

_OWN_FETCH_SITES = ("none", "same-origin")
_OVERRIDES = ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override")
_OF_PAGES = "web pages may not use this server"


def guard(
    *,
    hosts: Callable[[], frozenset[str]],
    is_let_in: Callable[[web.Request], bool] = lambda _: False,
) -> Middleware:
    """A middleware that refuses requests for other hosts than `name:port`, and web pages.

    But not a page that `is_let_in`.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = _refusal(request, hosts())
        if refusal == _OF_PAGES and is_let_in(request):
            return await handler(request)
        if refusal is not None:
            return web.Response(status=403, text=f"Refused: {refusal}.\n")
        return await handler(request)

    return check


def grpc_refusal(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """The reason to refuse a gRPC call: it comes from a browser, or names another host."""
    for name, value in metadata:
        if name == "origin" or (name == "sec-fetch-site" and value not in _OWN_FETCH_SITES):
            return _OF_PAGES
        if name == FOREIGN:
            return "this server does not answer to that authority"
        if name == "host":  # shown only when it stands in for the missing :authority
            return "this server does not answer to a Host in place of an authority"
    return None


@web.middleware
async def require_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a body whose content type is not JSON before it is read."""
    if "Content-Type" in request.headers and request.content_type != "application/json":
        message = f"Content-Type '{request.content_type}' is not supported; use application/json."
        error = {"code": 415, "message": message, "status": "INVALID_ARGUMENT"}
        return web.json_response({"error": error}, status=415)
    return await handler(request)


def _refusal(request: web.Request, hosts: frozenset[str]) -> str | None:
    if not request.raw_path.startswith("/"):
        return "the request target must be a path"
    given = request.headers.getall("Host", [])
    if len(given) != 1 or given[0].strip().lower() not in hosts:
        return "this server does not answer to that Host"
    if any(name in request.headers for name in _OVERRIDES):
        return "the method of a request is its own"
    if "Origin" in request.headers:
        return _OF_PAGES
    site = request.headers.get("Sec-Fetch-Site", "none").strip().lower()
    return None if site in _OWN_FETCH_SITES else _OF_PAGES
