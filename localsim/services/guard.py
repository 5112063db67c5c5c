"""The door of every HTTP port: only programs on this machine that mean this server come in.

A web page can make a browser send requests to loopback addresses; it cannot forge Host (DNS
rebinding), and it cannot hide Origin or Sec-Fetch-Site.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

_OWN_FETCH_SITES = ("none", "same-origin")


def guard(*, hosts: Callable[[], frozenset[str]]) -> Middleware:
    """Refuse what is not addressed to one of the hosts (`name:port`, lower case) or is a page's."""

    @web.middleware
    async def check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        refusal = _refusal(request, hosts())
        if refusal is not None:
            return web.Response(status=403, text=f"Refused: {refusal}.\n")
        return await handler(request)

    return check


def _refusal(request: web.Request, hosts: frozenset[str]) -> str | None:
    if not request.raw_path.startswith("/"):
        return "the request target must be a path"
    given = request.headers.getall("Host", [])
    if len(given) != 1 or given[0].strip().lower() not in hosts:
        return "this server does not answer to that Host"
    if "Origin" in request.headers:
        return "web pages may not use this server"
    site = request.headers.get("Sec-Fetch-Site", "none").strip().lower()
    if site not in _OWN_FETCH_SITES:
        return "web pages may not use this server"
    return None
