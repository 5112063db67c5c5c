"""What the server refuses before a page is made, and the headers that every answer has.

A page of another site may send requests to this machine, and its browser adds the cookie of the
dashboard to some of them. Ports do not separate sites: a page of another port of this machine
counts as the same site, so the origin is compared whole.
"""

from typing import TYPE_CHECKING

from aiohttp import web

from tpuctl.operations.metrics.local_page import host_refusal, metrics_refusal

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

FORM = "application/x-www-form-urlencoded"
METHODS = ("GET", "POST")
LOGIN = "/login"
METRICS = "/metrics"
WITHOUT_COOKIE = (LOGIN, METRICS)
"""Programs of this machine read metrics; pages, even those of the dashboard, do not."""
MOST_BODY_BYTES = 16 * 1024

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer the browser would send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "tpuctl",
}
"""Headers of every answer, also of refusals and errors; an unreadable request gets plain text."""


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Give an answer the headers of the dashboard."""
    response.headers.update(HEADERS)


def guard(port: int) -> "Middleware":
    """What refuses requests for other hosts, of other pages, and of other kinds."""

    @web.middleware
    async def check(request: web.Request, handler: "Handler") -> web.StreamResponse:
        if refused := refusal(request, port):
            status, why = refused
            answer = web.Response(status=status, text=f"Refused: {why}.\n")
            answer.force_close()
            return answer
        return await handler(request)

    return check


def refusal(request: web.Request, port: int) -> tuple[int, str] | None:
    """The status and the reason why a request is refused; None for one that is answered."""
    headers = request.headers
    if why := host_refusal(headers.getall("Host", []), port):
        return 403, why
    if unknown := _kind_refusal(request):
        return unknown
    if _is_of_other_page(request):
        return 403, "the request comes from a page of somebody else"
    if request.path == METRICS and (
        why := metrics_refusal(headers.getall("Origin", []), headers.get("Sec-Fetch-Site", "none"))
    ):
        return 403, why
    return _post_refusal(request) if request.method == "POST" else None


def _kind_refusal(request: web.Request) -> tuple[int, str] | None:
    """Why a request is of a kind that is never answered, whoever sends it."""
    if request.method not in METHODS:
        return 405, "only GET and POST are answered"
    if not request.raw_path.startswith("/"):
        return 400, "the request names a host, as those to a proxy do"
    return (400, "there are no WebSockets here") if "Upgrade" in request.headers else None


def _is_of_other_page(request: web.Request) -> bool:
    """Whether the browser says that a page of somebody else caused the request.

    Somebody may click on the link with the code where another page shows it.
    """
    headers = request.headers
    origins = headers.getall("Origin", [])
    if origins and origins != [f"http://{headers['Host'].lower()}"]:
        return True
    if headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
        return False
    is_navigation = headers.get("Sec-Fetch-Mode") == "navigate"
    is_page = headers.get("Sec-Fetch-Dest") == "document"
    is_click = request.method == "GET" and is_navigation and is_page
    return not (is_click and request.path == LOGIN)


def _post_refusal(request: web.Request) -> tuple[int, str] | None:
    """Why a change is refused: where nobody says from which page it comes, it is not trusted."""
    if "Origin" not in request.headers:
        return 403, "a change must say from which page it comes"
    if request.content_type != FORM:
        return 415, f"a form is sent as {FORM}"
    return None
