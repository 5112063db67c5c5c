"""The HTTP port of Cloud Storage, where some clients speak gRPC: Google has both on one port.

What a client speaks is what its handshake has agreed on with TLS, and without TLS its first bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable

from localsim.services.net.relay import Passing, RelayEnd, unchanged

HTTP_1, HTTP_2 = "http/1.1", "h2"
"""As they are named in the handshake of TLS."""
_PREFACE = b"PRI "
"""How a client begins that speaks HTTP/2 alone (RFC 9113, 3.4), and no method of HTTP/1.1."""

Lead = Callable[[RelayEnd], Awaitable[None]]
"""Joins a client to the server of gRPC, until either has ended."""


class SharedPort:
    """Leads the connections that speak HTTP/2 to a server of gRPC, and leaves others to HTTP."""

    def __init__(self, lead: Lead, passing: Callable[[], Passing] = lambda: unchanged) -> None:
        """`passing` returns what the bytes of a new client pass through on their way."""
        self._lead = lead
        self._passing = passing
        self._tasks: set[asyncio.Task[None]] = set()
        self.undecided: set[asyncio.Transport] = set()
        """The connections on which nothing has come."""

    def wrap(self, http: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """The protocol of a new connection, given that of the server of HTTP."""
        return lambda: _FirstBytes(self, http)

    def choose_grpc(self) -> asyncio.Protocol:
        """The protocol of a connection that has turned out to speak HTTP/2."""
        client = RelayEnd(self._passing())
        task = asyncio.ensure_future(self._lead_to_end(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return client

    async def close(self) -> None:
        """Break the connections that are led, and those of which nothing is known."""
        for transport in list(self.undecided):
            transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _lead_to_end(self, client: RelayEnd) -> None:
        try:
            await self._lead(client)
        finally:
            client.abort()


class _FirstBytes(asyncio.Protocol):
    """A new connection; another protocol takes its place as soon as it is known which."""

    def __init__(self, port: SharedPort, http: Callable[[], asyncio.Protocol]) -> None:
        self._port = port
        self._http = http
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        tls = transport.get_extra_info("ssl_object")
        if tls is None:
            self._port.undecided.add(transport)
        else:
            self._hand_over(is_http2=tls.selected_alpn_protocol() == HTTP_2)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.startswith(_PREFACE) and _PREFACE.startswith(self._received):
            return  # too little to tell
        self._hand_over(is_http2=self._received.startswith(_PREFACE))

    def connection_lost(self, _error: Exception | None) -> None:
        if self._transport is not None:
            self._port.undecided.discard(self._transport)

    def _hand_over(self, *, is_http2: bool) -> None:
        transport = self._transport
        assert transport is not None
        self._port.undecided.discard(transport)
        chosen = self._port.choose_grpc() if is_http2 else self._http()
        transport.set_protocol(chosen)
        chosen.connection_made(transport)
        if self._received:
            chosen.data_received(self._received)
