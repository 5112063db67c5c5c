"""What answers at port 443 inside the VPC: TLS ends here, and each client is led to its service.

Which service it wants is the name in its handshake (SNI). A client that speaks HTTP/2 alone is one
of gRPC; everybody else gets HTTP/1.1.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from localsim.services.net.acceptor import Acceptor
from localsim.services.net.body_length import SingleBodyLength
from localsim.services.net.google_hosts import STORAGE_HOST, bucket_of_host
from localsim.services.net.relay import RelayEnd

HANDSHAKE_S = 10.0
_HTTP, _HTTP2 = "http/1.1", "h2"
_NO_SUCH_NAME = ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME


class TlsFront(Acceptor):
    """The connections to every service that has one of Google's names."""

    def __init__(
        self,
        open_context: Callable[[], Awaitable[ssl.SSLContext]],
        servers: Mapping[str, Callable[[], asyncio.Protocol]],
        lead_grpc: Callable[[RelayEnd], Awaitable[None]],
    ) -> None:
        """`servers` are the HTTP servers by host name.

        `open_context` gives the certificate's context; it is asked when the first client comes.
        `lead_grpc` joins a client to the server of gRPC until either has ended.
        """
        self._open_context = open_context
        self._servers = servers
        self._lead_grpc = lead_grpc
        self._context: asyncio.Future[ssl.SSLContext] | None = None
        super().__init__(self._lead)

    async def _lead(self, client: socket.socket) -> None:
        if self._context is None:
            self._context = asyncio.ensure_future(self._prepared())
        choice = _Choice(self._servers)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: choice,
                client,
                ssl=await asyncio.shield(self._context),
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except (OSError, ssl.SSLError):  # what does not speak TLS, or wants another name
            client.close()
            return
        if choice.grpc is not None:
            await self._lead_grpc(choice.grpc)

    async def _prepared(self) -> ssl.SSLContext:
        context = await self._open_context()
        context.set_alpn_protocols([_HTTP, _HTTP2])
        context.sni_callback = partial(_note_name, frozenset(self._servers))
        return context


class _Choice(asyncio.Protocol):
    """A client whose handshake is done; another protocol takes its place at once."""

    def __init__(self, servers: Mapping[str, Callable[[], asyncio.Protocol]]) -> None:
        self._servers = servers
        self.grpc: RelayEnd | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tls = transport.get_extra_info("ssl_object")
        chosen: asyncio.Protocol
        if tls.selected_alpn_protocol() == _HTTP2:
            chosen = self.grpc = RelayEnd()
        else:
            chosen = SingleBodyLength(self._servers[tls.wanted_name]())
        transport.set_protocol(chosen)
        chosen.connection_made(transport)


def _note_name(
    known: frozenset[str], connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext
) -> int | None:
    """Note which name a client asks for; refuse a handshake for another."""
    if name is not None and bucket_of_host(name) is not None:
        name = STORAGE_HOST
    if name not in known:
        return _NO_SUCH_NAME
    connection.wanted_name = name  # type: ignore[attr-defined]
    return None
