"""Requests that say twice how long their body is, as TensorFlow's client of Cloud Storage does.

It sends Content-Length and with it `Transfer-Encoding: identity`, unknown to RFC 9112, or
`chunked`, which then decides (section 6.3). Google's servers take both, and aiohttp neither, so the
field that does not count is left out before a request is parsed.
"""

import asyncio
import re

_END_OF_HEAD = b"\r\n\r\n"
_LONGEST_HEAD_BYTES = 64 * 1024
_IDENTITY = re.compile(rb"\r\ntransfer-encoding:[ \t]*identity[ \t]*(?=\r\n)", re.IGNORECASE)
_CODING = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*(?=\r\n)", re.IGNORECASE)


class SingleBodyLength(asyncio.Protocol):
    """Hands on what a client sends to an HTTP server's protocol, with one length for each body.

    After a head that is too long, or a body in chunks, all is handed on as it comes.
    """

    def __init__(self, server: asyncio.Protocol) -> None:
        self._server = server
        self._begun = b""
        self._left_of_body = 0
        self._knows_heads = True

    def data_received(self, data: bytes) -> None:
        """Hand on heads with one length, and bodies as they are."""
        while self._knows_heads and data:
            if self._left_of_body:
                taken, data = data[: self._left_of_body], data[self._left_of_body :]
                self._left_of_body -= len(taken)
                self._server.data_received(taken)
            else:
                data = self._pass_head(data)
        if data:
            self._server.data_received(data)

    def _pass_head(self, data: bytes) -> bytes:
        """Hand a request's head on; returns what comes after it."""
        head, end, rest = (self._begun + data).partition(_END_OF_HEAD)
        self._begun = b"" if end else head
        if not end and len(head) <= _LONGEST_HEAD_BYTES:
            return b""
        if not end:
            self._knows_heads = False
            return head
        head = _IDENTITY.sub(b"", head + end)
        self._knows_heads = _CODING.search(head) is None
        length = _LENGTH.search(head)
        if length is not None and self._knows_heads:
            self._left_of_body = int(length[1])
        elif length is not None:
            head = _LENGTH.sub(b"", head)
        self._server.data_received(head)
        return rest

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the server's protocol."""
        self._server.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the server's protocol."""
        self._server.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """Ask the server's protocol."""
        return self._server.eof_received()

    def pause_writing(self) -> None:
        """Tell the server's protocol."""
        self._server.pause_writing()

    def resume_writing(self) -> None:
        """Tell the server's protocol."""
        self._server.resume_writing()
