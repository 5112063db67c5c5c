"""Collects the body of a request, of a known length or in chunks, up to a limit."""

from __future__ import annotations

import re
import zlib

from tpuctl.serving.protocol.protocol_error import ProtocolError, bad_request, short_text

_MAX_LINE_BYTES = 1024
_MAX_TRAILERS = 64
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(;[^\r\n]*)?")
_WINDOWS = {"gzip": 31, "deflate": 15}


def oversize(limit: int) -> ProtocolError:
    """The error of a body that is too large; the rest of it is not read."""
    return ProtocolError(413, f"the body is larger than {limit} bytes", closes=True)


class PlainBody:
    """A body of a known length."""

    def __init__(self, length: int) -> None:
        """Expect `length` bytes."""
        self._left = length
        self._parts: list[bytes] = []
        self.received = 0

    def feed(self, data: bytes) -> bytes | None:
        """Take data; what follows the body once it is whole, None before."""
        rest = data[self._left :]
        part = data[: self._left] if rest else data
        self._parts.append(part)
        self._left -= len(part)
        self.received += len(part)
        return None if self._left else rest

    def joined(self) -> bytes:
        """The whole body."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class ChunkedBody:
    """A body in chunks (RFC 9112, section 7.1); extensions and trailers are passed over."""

    def __init__(self, limit: int) -> None:
        """Refuse more than `limit` bytes."""
        self._limit = limit
        self._pending = bytearray()  # its beginning is deleted without a copy of the rest
        self._body = bytearray()
        self._in_chunk = 0
        """Bytes of the chunk that are missing, its end of line included."""
        self._trailers: int | None = None
        """How many lines followed the last chunk; None before."""

    @property
    def received(self) -> int:
        """The number of bytes so far."""
        return len(self._body)

    def feed(self, data: bytes) -> bytes | None:
        """Take data; what follows the body once it is whole, None before. Raises ProtocolError."""
        self._pending += data
        while self._take_chunk() if self._in_chunk else self._take_line():
            if self._trailers == -1:
                return bytes(self._pending)
        return None

    def joined(self) -> bytes:
        """The whole body."""
        return bytes(self._body)

    def _take_line(self) -> bool:
        """Take the size of a chunk or a trailer; False when the rest of its line is missing."""
        end = self._pending.find(b"\r\n", 0, _MAX_LINE_BYTES)
        if end < 0:
            if len(self._pending) >= _MAX_LINE_BYTES:
                raise _malformed_chunk()
            return False
        line = bytes(self._pending[:end])
        del self._pending[: end + 2]
        if self._trailers is None:
            self._begin_chunk(line)
        else:
            self._take_trailer(line)
        return True

    def _begin_chunk(self, line: bytes) -> None:
        found = _SIZE.fullmatch(line)
        if found is None:
            raise _malformed_chunk()
        size = int(found[1], 16)
        if self.received + size > self._limit:
            raise oversize(self._limit)
        if size:
            self._in_chunk = size + 2
        else:
            self._trailers = 0

    def _take_trailer(self, line: bytes) -> None:
        self._trailers = (self._trailers or 0) + 1 if line else -1
        if self._trailers > _MAX_TRAILERS:
            raise _malformed_chunk()

    def _take_chunk(self) -> bool:
        """Take what is there of a chunk; False when more of it is missing."""
        part = self._pending[: max(0, self._in_chunk - 2)]
        self._body += part
        del self._pending[: len(part)]
        self._in_chunk -= len(part)
        if self._in_chunk > 2 or len(self._pending) < 2:
            return False
        if self._pending[:2] != b"\r\n":
            raise _malformed_chunk()
        del self._pending[:2]
        self._in_chunk = 0
        return True


def decoded(body: bytes, coding: str, limit: int) -> bytes:
    """A body without its content coding, gzip or deflate; raises ProtocolError."""
    if coding == "identity":
        return body
    if coding not in _WINDOWS:
        raise ProtocolError(415, f"content encoding {short_text(coding)} is not supported")
    inflater = zlib.decompressobj(_WINDOWS[coding])
    try:
        data = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise bad_request(f"the body is not {coding}") from error
    if len(data) > limit:
        raise oversize(limit)
    if not inflater.eof or inflater.unused_data:
        raise bad_request(f"the body is not {coding}, or not all of it")
    return data


def _malformed_chunk() -> ProtocolError:
    return ProtocolError(400, "the request is malformed: a chunk has no size or end", closes=True)
