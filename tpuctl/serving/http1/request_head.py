"""Reads the head of a request by RFC 9112, strictly: what two readers may see differently fails."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from tpuctl.serving.protocol.protocol_error import ProtocolError

END = b"\r\n\r\n"
MAX_HEAD_BYTES = 16 * 1024
MAX_HEADERS = 64
_START = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!-~]+) HTTP/1\.([01])")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class RequestHead(NamedTuple):
    """The head of a request; names of headers are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    length: int
    """Of the body; 0 when it is chunked."""
    is_chunked: bool
    keeps_alive: bool


@lru_cache(maxsize=256)
def parse_head(head: bytes) -> RequestHead:
    """Read a head without the empty line that ends it; raises ProtocolError.

    What a client sends again and again is read once. Nobody changes the result.
    """
    start, *lines = head.decode("latin-1").split("\r\n")
    found = _START.fullmatch(start)
    if found is None:
        raise _malformed("its first line is not that of HTTP/1.1")
    if len(lines) > MAX_HEADERS:
        raise ProtocolError(431, f"the request has more than {MAX_HEADERS} headers", closes=True)
    headers: dict[str, str] = {}
    for line in lines:
        name, mark, value = line.partition(":")
        name = name.lower()
        value = value.strip(" \t")
        if not mark or not _NAME.fullmatch(name) or _BAD_VALUE.search(value):
            raise _malformed("a header is not a name and a value")
        if name in headers:
            value = _combined(name, headers[name], value)
        headers[name] = value
    method, target, minor = found.groups()
    if minor == "1" and "host" not in headers:
        raise _malformed("it has no header Host")
    connection = headers.get("connection", "").lower()
    keeps_alive = "close" not in connection if minor == "1" else "keep-alive" in connection
    is_chunked = _is_chunked(headers, minor)
    return RequestHead(method, target, headers, _length(headers), is_chunked, keeps_alive)


def _combined(name: str, first: str, second: str) -> str:
    if name in ("content-length", "transfer-encoding", "host", "inference-header-content-length"):
        raise _malformed(f"it has two headers {name}")
    return f"{first}, {second}"


def _is_chunked(headers: dict[str, str], minor: str) -> bool:
    coding = headers.get("transfer-encoding")
    if coding is None:
        return False
    if coding.lower() != "chunked" or "content-length" in headers or minor == "0":
        raise _malformed("its transfer encoding is not chunked alone")
    return True


def _length(headers: dict[str, str]) -> int:
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()) or len(text) > 15:
        raise _malformed("its content length is not a number")
    return int(text)


def _malformed(reason: str) -> ProtocolError:
    return ProtocolError(400, f"the request is malformed: {reason}", closes=True)
