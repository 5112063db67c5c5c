"""Who may send requests to a proxy.

With a token: whoever sends it. Without one a proxy listens to this machine alone, where a page of a
web site could have the browser send requests: its own name may be resolved to 127.0.0.1 (DNS
rebinding), and simple requests are sent to any address.
"""

import hmac
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from tpuctl.proxy.error_answers import ProxyError, refused
from tpuctl.proxy.header_rules import AUTHORIZATION, HOST

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
REFUSED_METHODS = frozenset({"CONNECT", "TRACE"})
ALLOWED = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
"""What Allow says; methods that nobody has registered are passed on, too."""
SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class AccessControl:
    """Checks requests before anything of them is passed on."""

    token: str | None

    @property
    def takes_authorization(self) -> bool:
        """Whether the header Authorization is for the proxy, and not for the engine."""
        return self.token is not None

    def refusal(self, request: web.BaseRequest) -> ProxyError | None:
        """Why a request is refused; None for one that is passed on."""
        if request.method in REFUSED_METHODS or not request.raw_path.startswith("/"):
            if request.method in REFUSED_METHODS:
                what = "this method is not passed on"
                return refused(405, "method_not_allowed", what, Allow=ALLOWED)
            return refused(400, "bad_request", "the target is not a path")
        if len(request.headers.getall(HOST, ())) > 1:
            return refused(400, "bad_request", "it has two hosts")
        if self.token is None:
            return _page_refusal(request)
        return self._token_refusal(request, self.token)

    def _token_refusal(self, request: web.BaseRequest, token: str) -> ProxyError | None:
        sent = request.headers.getall(AUTHORIZATION, [])
        is_bearer = len(sent) == 1 and sent[0][: len(SCHEME)].lower() == SCHEME
        given = sent[0][len(SCHEME) :].strip() if is_bearer else ""
        if hmac.compare_digest(_bytes(given), _bytes(token)):
            return None
        what = "the token is wrong" if given else "a token is needed: Authorization: Bearer TOKEN"
        return refused(401, "invalid_api_key", what, **{"WWW-Authenticate": "Bearer"})


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _page_refusal(request: web.BaseRequest) -> ProxyError | None:
    """Why a request that may come from a web page is refused where no token is asked for."""
    headers = request.headers
    hosts = headers.getall(HOST, [])
    if hosts and host_name(hosts[0]) not in LOOPBACK_HOSTS:
        return refused(403, "wrong_host", "without a token only requests to localhost are taken")
    origins = headers.getall("Origin", [])
    if any(host_name(urlsplit(each).netloc) not in LOOPBACK_HOSTS for each in origins):
        return refused(403, "wrong_origin", "without a token no page of a web site is answered")
    if headers.get("Sec-Fetch-Site") == "cross-site" and not origins:
        return refused(403, "wrong_origin", "without a token no page of a web site is answered")
    return None


def host_name(host: str) -> str:
    """The name of a Host header, in lower case and without the port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
