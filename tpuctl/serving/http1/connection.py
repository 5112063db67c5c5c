"""One connection: reads requests, one after the other, hands each on and writes its answer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple, Protocol, cast

from tpuctl.serving.http1.request_body import ChunkedBody, PlainBody, decoded, oversize
from tpuctl.serving.http1.request_head import END, MAX_HEAD_BYTES, RequestHead, parse_head
from tpuctl.serving.protocol.protocol_error import ProtocolError

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
MAX_PIPELINED_BYTES = 64 * 1024
LINGER_S = 2.0
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class HttpLimits(NamedTuple):
    """What a client may ask of a connection."""

    max_body_bytes: int = 64 * 1024 * 1024
    max_total_bytes: int = 1024 * 1024 * 1024
    """Of the bodies of all connections."""
    max_connections: int = 1000
    read_s: float = 10.0
    """For a request to arrive, beside its body's bytes at the slowest rate."""
    slowest_bytes_per_s: float = 64 * 1024
    idle_s: float = 75.0
    write_s: float = 20.0
    """For a client to take more of an answer."""


class HttpRequest(NamedTuple):
    """A whole request."""

    head: RequestHead
    body: bytes


class HttpServer(Protocol):
    """Who answers the requests of connections."""

    limits: HttpLimits
    read_buffer: memoryview

    @property
    def closes_connections(self) -> bool:
        """Whether the next answer of each connection is its last."""

    def open_connection(self, connection: HttpConnection) -> bool:
        """Take note of a connection; False when there are too many."""

    def forget_connection(self, connection: HttpConnection) -> None:
        """Take note of its end: what it asked for is not wanted any more."""

    def reserve_bytes(self, count: int) -> bool:
        """Take so much memory for a body, or give it back; False when there is not so much."""

    def handle(self, connection: HttpConnection, request: HttpRequest) -> None:
        """Answer a request, now or later; raises ProtocolError."""

    def refuse(
        self, connection: HttpConnection, error: ProtocolError, request: RequestHead | None
    ) -> None:
        """Answer with an error."""


class HttpConnection(asyncio.BufferedProtocol):
    """A connection of a client."""

    def __init__(self, server: HttpServer, clock: Callable[[], float]) -> None:
        """Serve a connection once it is made."""
        self._server = server
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._pending = b""
        """What is read and belongs to no request yet."""
        self._head: RequestHead | None = None
        self._body: PlainBody | ChunkedBody | None = None
        self._reserved_bytes = 0
        self._is_paused = False
        self._closes = False
        self._close_at_s = math.inf
        """When a client that takes no more of its answer, or sends on after it, is cut."""
        self.is_busy = False
        """Whether a request is being answered."""
        self.began_s = clock()
        """When the request, or the wait for one, began."""

    @property
    def peer(self) -> str:
        """The client's address."""
        address = self._transport.get_extra_info("peername") if self._transport else None
        return str(address[0]).removeprefix("::ffff:") if address else "unknown"

    @property
    def has_unsent(self) -> bool:
        """Whether the client has not taken all of its answer."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read, unless there are too many connections."""
        self._transport = cast("asyncio.Transport", transport)
        if not self._server.open_connection(self):
            text = "the server has too many connections"
            self.refuse(ProtocolError(503, text, retry_after_s=1))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Forget the connection."""
        self._transport = None
        self._closes = True
        self._release_body()
        self._server.forget_connection(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Where data are read to: the same for all connections, for they are taken at once.

        The 256 KiB that asyncio allocates for every read of a Protocol cost 8 us, a tenth of what a
        small request costs.
        """
        return self._server.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
        self.receive(bytes(self._server.read_buffer[:nbytes]))

    def receive(self, data: bytes) -> None:
        """Read what there is; while a request is answered, keep it."""
        if self._closes:
            return
        if not self.is_busy and not self._pending and self._body is None:
            self.began_s = self._clock()
        self._pending = self._pending + data if self._pending else data
        if not self.is_busy:
            self._advance()
        elif len(self._pending) > MAX_PIPELINED_BYTES and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Give the client a time to take what it asked for."""
        self._close_at_s = self._clock() + self._server.limits.write_s

    def resume_writing(self) -> None:
        """Go on: it took it."""
        if not self._closes:
            self._close_at_s = math.inf

    def check_time(self, now_s: float) -> None:
        """End a connection that is too slow, or idle for too long."""
        limits = self._server.limits
        if now_s > self._close_at_s:
            self.abort()
        elif self.is_busy or self._closes:
            return
        elif self._body is not None or self._pending:
            received = self._body.received if self._body else 0
            if now_s - self.began_s > limits.read_s + received / limits.slowest_bytes_per_s:
                text = "the request did not arrive in time"
                self.refuse(ProtocolError(408, text, closes=True))
        elif now_s - self.began_s > limits.idle_s:
            self.close()

    def respond(
        self, status: int, body: bytes, *, media_type: str, headers: str = "", closes: bool = False
    ) -> None:
        """Write an answer; `headers` are lines with their ends.

        `closes` ends the connection, also where the client has not sent all of its request.
        """
        transport, head = self._transport, self._head
        if transport is None or transport.is_closing():
            return
        is_last = closes or head is None or not head.keeps_alive or self._server.closes_connections
        text = (
            f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\nContent-Type: {media_type}\r\n"
            f"Content-Length: {len(body)}\r\n{headers}"
            f"Connection: {'close' if is_last else 'keep-alive'}\r\n\r\n"
        ).encode("latin-1")
        is_bodiless = head is not None and head.method == "HEAD"
        transport.write(text if is_bodiless else text + body)
        self._release_body()
        self.is_busy = False
        if closes:
            self._linger()
        elif is_last:
            self.close()
        else:
            self.began_s = self._clock()
            if self._pending:
                asyncio.get_running_loop().call_soon(self._resume)

    def close(self) -> None:
        """Close once what is written is sent."""
        self._closes = True
        self._close_at_s = self._clock() + self._server.limits.write_s
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now."""
        self._closes = True
        if self._transport is not None:
            self._transport.abort()

    def _linger(self) -> None:
        """Send the end, and read on for a moment without taking it.

        Closing while data arrives would reset the connection, and the answer with it.
        """
        self._closes = True
        self._close_at_s = self._clock() + LINGER_S
        if self._transport is not None:
            with suppress(OSError):  # the client is gone, which asyncio finds out by itself
                self._transport.write_eof()

    def refuse(self, error: ProtocolError) -> None:
        """Answer the request with an error."""
        self._server.refuse(self, error, self._head)

    def _resume(self) -> None:
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        if not self.is_busy and not self._closes:
            self._advance()

    def _advance(self) -> None:
        """Read requests, until one is being answered or data is missing."""
        try:
            while self._pending and not self.is_busy and not self._closes:
                data, self._pending = self._pending, b""
                if self._body is None:
                    data = self._read_head(data)
                if self._body is not None and self._head is not None:
                    rest = self._body.feed(data)
                    if rest is not None:
                        self._pending = rest
                        self._hand_on(self._head, self._body)
                elif self._pending:
                    return
        except ProtocolError as error:
            self.refuse(error)

    def _read_head(self, data: bytes) -> bytes:
        """Read a head and return what follows it; without its end, all stays pending."""
        end = data.find(END)
        if end > MAX_HEAD_BYTES or (end < 0 and len(data) > MAX_HEAD_BYTES):
            text = f"the head of the request is larger than {MAX_HEAD_BYTES} bytes"
            raise ProtocolError(431, text, closes=True)
        if end < 0:
            self._pending = data
            return b""
        head = self._head = parse_head(data[:end])
        self._begin_body(head)
        rest = data[end + len(END) :]
        if head.headers.get("expect", "").lower() == "100-continue" and not rest:
            self._send_continue()
        return rest

    def _begin_body(self, head: RequestHead) -> None:
        limit = self._server.limits.max_body_bytes
        if head.length > limit:
            raise oversize(limit)
        is_open = head.is_chunked or "content-encoding" in head.headers
        size = limit if is_open else head.length
        if size:
            if not self._server.reserve_bytes(size):
                text = "the server has no memory for the request"
                raise ProtocolError(503, text, retry_after_s=1, closes=True)
            self._reserved_bytes = size
        self._body = ChunkedBody(limit) if head.is_chunked else PlainBody(head.length)

    def _release_body(self) -> None:
        self._head = self._body = None
        if self._reserved_bytes:
            self._server.reserve_bytes(-self._reserved_bytes)
            self._reserved_bytes = 0

    def _send_continue(self) -> None:
        if self._transport is not None:
            self._transport.write(CONTINUE)

    def _hand_on(self, head: RequestHead, body: PlainBody | ChunkedBody) -> None:
        self.is_busy = True
        data = body.joined()
        coding = head.headers.get("content-encoding")
        if coding is not None:
            data = decoded(data, coding.lower(), self._server.limits.max_body_bytes)
        self._server.handle(self, HttpRequest(head, data))
