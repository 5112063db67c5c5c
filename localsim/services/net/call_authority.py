"""Marks the gRPC calls of a connection that name another host than this one as `:authority`.

gRPC for Python shows a handler no `:authority`; so the bytes of the client are read on their way to
it (HTTP/2, RFC 9113). They pass as they are, but a call for another host gets one more header.
"""

from collections.abc import Collection

from hpack import Decoder, HPACKError

FOREIGN = "localsim-foreign-authority"
"""The header that such a call gets; whoever sends it is refused as well."""

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD_BYTES = 9
_HEADERS, _CONTINUATION = 1, 9
_END_HEADERS, _PADDED, _PRIORITY = 0x4, 0x8, 0x20
_PRIORITY_BYTES = 5
_MAX_BLOCK_BYTES = 256 * 1024
"""More than gRPC takes of all headers of a call."""
_MARK = b"\0" + bytes([len(FOREIGN)]) + FOREIGN.encode() + b"\x011"
"""The header as HPACK writes it for no table to remember."""


class AuthorityMarker:
    """What one client has sent so far, as far as the next bytes need it."""

    def __init__(self, hosts: Collection[str]) -> None:
        """`hosts` are the values of `:authority` that are this server's."""
        self._hosts = frozenset(host.encode() for host in hosts)
        self._decoder = Decoder()
        self._block = b""
        self._waiting = bytearray()
        """A beginning that decides nothing yet."""
        self._passing = 0
        """So many of the next bytes concern nobody here."""
        self._is_http2: bool | None = None

    def pass_on(self, data: bytes) -> bytes:
        """What the server is sent for these bytes; raises ConnectionAbortedError for nonsense."""
        if self._is_http2 is False:
            return data
        if len(data) <= self._passing:
            self._passing -= len(data)
            return data
        self._waiting += data
        ready = bytearray()
        while (part := self._next_part()) is not None:
            ready += part
        return bytes(ready)

    def _next_part(self) -> bytes | None:
        """The next bytes for the server, None while there are not enough to decide."""
        if self._passing:
            return self._take(self._passing) if self._waiting else None
        if self._is_http2 is None:
            return self._preface()
        if len(self._waiting) < _HEAD_BYTES:
            return None
        size = _HEAD_BYTES + int.from_bytes(self._waiting[:3], "big")
        if self._waiting[3] not in (_HEADERS, _CONTINUATION):
            self._passing = size
            return b""
        if size > _MAX_BLOCK_BYTES:
            raise ConnectionAbortedError("headers that are too long")
        return None if len(self._waiting) < size else self._headers(self._take_frame(size))

    def _preface(self) -> bytes | None:
        """The first bytes; a client that does not speak HTTP/2 is left to the server's refusal."""
        found = bytes(self._waiting[: len(_PREFACE)])
        if not _PREFACE.startswith(found):
            self._is_http2 = False
            return self._take_frame(len(self._waiting))
        if len(found) < len(_PREFACE):
            return None
        self._is_http2 = True
        return self._take_frame(len(_PREFACE))

    def _take(self, most: int) -> bytes:
        part = self._take_frame(min(most, len(self._waiting)))
        self._passing -= len(part)
        return part

    def _take_frame(self, size: int) -> bytes:
        part = bytes(self._waiting[:size])
        del self._waiting[:size]
        return part

    def _headers(self, frame: bytes) -> bytes:
        """A frame of headers; the last one of a call for another host, with the mark behind it."""
        kind, flags, stream = frame[3], frame[4], frame[5:_HEAD_BYTES]
        self._block = (self._block if kind == _CONTINUATION else b"") + _fragment(frame)
        if len(self._block) > _MAX_BLOCK_BYTES:
            raise ConnectionAbortedError("headers that are too long")
        if not flags & _END_HEADERS:
            return frame
        block, self._block = self._block, b""
        try:
            fields = self._decoder.decode(block, raw=True)
        except HPACKError as error:
            raise ConnectionAbortedError(str(error)) from error
        if all(value in self._hosts for name, value in fields if name == b":authority"):
            return frame
        unfinished = frame[:4] + bytes([flags & ~_END_HEADERS]) + frame[5:]
        head = len(_MARK).to_bytes(3, "big") + bytes([_CONTINUATION, _END_HEADERS]) + stream
        return unfinished + head + _MARK


def _fragment(frame: bytes) -> bytes:
    """The part of a block of header fields that a frame carries."""
    kind, flags, payload = frame[3], frame[4], frame[_HEAD_BYTES:]
    if kind == _CONTINUATION:
        return payload
    if flags & _PADDED:
        padding = payload[0] if payload else 0
        if padding >= len(payload):
            raise ConnectionAbortedError("a frame that is all padding")
        payload = payload[1 : len(payload) - padding]
    return payload[_PRIORITY_BYTES:] if flags & _PRIORITY else payload
