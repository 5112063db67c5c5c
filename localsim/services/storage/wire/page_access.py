"""Web pages that the CORS rules of a bucket let in: cloud.google.com/storage/docs/cross-origin.

Every other page is refused, as on all ports. The port asks for no token, so an origin must be named
by a rule; `*` stands for pages of this machine alone. They reach objects and not the bucket, whose
rules they could change.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from localsim.rules.objects.bucket_settings.web_settings import checked_cors
from localsim.rules.objects.buckets.bucket_store import Buckets
from localsim.rules.objects.storage_model import StorageError

_OBJECTS = re.compile(
    r"(?:/resumable)?(?:/upload|/download)?/storage/v1/b/(?P<bucket>[^/]+)/o(?:/.*)?"
)
_XML = re.compile(r"/(?!storage/|upload/|download/|batch/|retry_test)(?P<bucket>[^/]+)/.+")
_OWN_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class PageGrant:
    """The rule of a bucket that lets a page in."""

    origin: str
    rule: Mapping[str, Any]

    def headers(self) -> dict[str, str]:
        """What a reply tells the browser."""
        told = {"Access-Control-Allow-Origin": self.origin, "Vary": "Origin"}
        shown = ", ".join(self.rule.get("responseHeader", ()))
        return told | ({"Access-Control-Expose-Headers": shown} if shown else {})

    def preflight_headers(self, asked: str) -> dict[str, str]:
        """What the reply to a preflight tells; of the headers `asked` for, those of the rule."""
        known = {name.lower() for name in self.rule.get("responseHeader", ())}
        names = [name.strip() for name in asked.split(",")]
        granted = [name for name in names if name.lower() in known or "*" in known]
        told = {
            **self.headers(),
            "Access-Control-Allow-Methods": ",".join(self.rule.get("method", ())),
            "Access-Control-Max-Age": str(self.rule.get("maxAgeSeconds", 3600)),
        }
        return told | ({"Access-Control-Allow-Headers": ",".join(granted)} if granted else {})


GRANT = web.RequestKey("storage.page", PageGrant)
"""Where a request of a page carries what lets it in."""


def page_grants(buckets: Buckets) -> Callable[[web.Request], bool]:
    """The question whether a bucket lets in the page that sends a request; the grant is noted."""

    def is_let_in(request: web.Request) -> bool:
        grant = _grant(buckets, request)
        if grant is not None:
            request[GRANT] = grant
        return grant is not None

    return is_let_in


async def tell_page(request: web.Request, response: web.StreamResponse) -> None:
    """Before the head of a reply is sent: tell the browser that the page may read it."""
    if GRANT in request:
        response.headers.update(request[GRANT].headers())


@web.middleware
async def serve_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer the question of a browser whether a page may send a request, and its requests."""
    if GRANT not in request:
        return await handler(request)
    if request.method == "OPTIONS":
        asked = request.headers.get("Access-Control-Request-Headers", "")
        return web.Response(headers=request[GRANT].preflight_headers(asked))
    response = await handler(request)
    if not response.prepared:
        await tell_page(request, response)
    return response


def _grant(buckets: Buckets, request: web.Request) -> PageGrant | None:
    origin = request.headers.get("Origin", "")
    path = request.raw_path.partition("?")[0]
    match = _OBJECTS.fullmatch(path) or _XML.fullmatch(path)
    if not origin or match is None:
        return None
    try:
        settings = buckets.get(unquote(match["bucket"])).properties
    except StorageError:
        return None
    method = request.method
    if method == "OPTIONS":
        method = request.headers.get("Access-Control-Request-Method", "")
    try:
        rules = checked_cors(settings.get("cors")) or ()
    except StorageError:  # of a state that was kept before rules were checked
        return None
    return next((PageGrant(origin, rule) for rule in rules if _is_for(rule, origin, method)), None)


def _is_for(rule: Mapping[str, Any], origin: str, method: str) -> bool:
    origins, methods = rule.get("origin", ()), rule.get("method", ())
    if method not in methods and "*" not in methods:
        return False
    return origin in origins or ("*" in origins and _is_of_this_machine(origin))


def _is_of_this_machine(origin: str) -> bool:
    try:
        return urlsplit(origin).hostname in _OWN_HOSTS
    except ValueError:
        return False
