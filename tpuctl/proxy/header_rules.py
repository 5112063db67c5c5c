"""Which headers a proxy passes on, which it drops, and which it adds.

https://www.rfc-editor.org/rfc/rfc9110#section-7.6
"""

import re
from collections.abc import Iterable

from multidict import CIMultiDict, CIMultiDictProxy, istr

HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
ANSWERED_HERE = frozenset({"expect"})
"""Requests only: the proxy itself says `100 Continue`."""
REQUEST_ID = istr("X-Request-Id")
CONNECTION, UPGRADE, VIA = istr("Connection"), istr("Upgrade"), istr("Via")
AUTHORIZATION, HOST = istr("Authorization"), istr("Host")
FORWARDED_FOR, FORWARDED_PROTO = istr("X-Forwarded-For"), istr("X-Forwarded-Proto")
FORWARDED_HOST = istr("X-Forwarded-Host")
SERVER, TRANSFER_ENCODING = istr("Server"), istr("Transfer-Encoding")
LENGTH = frozenset({"content-length"})
"""Beside chunks it says nothing, and may be wrong: https://www.rfc-editor.org/rfc/rfc9112#section-6.3
"""
PSEUDONYM = "1.1 tpuctl"
_SANE_ID = re.compile(r"[A-Za-z0-9._~:+/=@-]{1,128}")


def is_sane_request_id(text: str) -> bool:
    """Whether a client's request id may be passed on and written into logs."""
    return _SANE_ID.fullmatch(text) is not None


def request_headers(
    headers: CIMultiDictProxy[str], peer: str, scheme: str, request_id: str, *, upgrade: str = ""
) -> CIMultiDict[str]:
    """The headers of a request as a replica gets them; `upgrade` is the protocol it asks for.

    The hosts and the scheme that a proxy before this one saw are kept.
    """
    passed = _end_to_end(headers, ANSWERED_HERE)
    before = ", ".join(passed.popall(FORWARDED_FOR, ()))
    passed[FORWARDED_FOR] = f"{before}, {peer}" if before else peer
    passed.setdefault(FORWARDED_PROTO, scheme)
    if HOST in passed:
        passed.setdefault(FORWARDED_HOST, passed[HOST])
    passed[REQUEST_ID] = request_id
    passed[VIA] = ", ".join((*passed.popall(VIA, ()), PSEUDONYM))
    _add_upgrade(passed, upgrade)
    return passed


def answer_headers(
    headers: CIMultiDictProxy[str], request_id: str, *, upgrade: str = ""
) -> CIMultiDict[str]:
    """The headers of a replica's answer as the client gets them."""
    passed = _end_to_end(headers, LENGTH if TRANSFER_ENCODING in headers else frozenset())
    passed[REQUEST_ID] = request_id
    passed[VIA] = ", ".join((*passed.popall(VIA, ()), PSEUDONYM))
    passed.setdefault(SERVER, "tpuctl")
    _add_upgrade(passed, upgrade)
    return passed


def _add_upgrade(passed: CIMultiDict[str], upgrade: str) -> None:
    if upgrade:
        passed[CONNECTION] = "Upgrade"
        passed[UPGRADE] = upgrade


def _end_to_end(headers: CIMultiDictProxy[str], others: Iterable[str]) -> CIMultiDict[str]:
    """The headers that are not for the next hop alone, and not `others`."""
    dropped = HOP_BY_HOP.union(others)
    if named := headers.getall(CONNECTION, ()):
        dropped = dropped.union(each.strip().lower() for line in named for each in line.split(","))
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in dropped
    )
