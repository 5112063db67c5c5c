"""A server of gRPC on a loopback port of its own, which only this process leads clients to.

What the server sees of a connection is a port number: a relay says beforehand whose it is. Whoever
finds the server's port without a relay is nobody.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Generic, TypeVar

from localsim.loopback import LOOPBACK
from localsim.services.net.relay import Passing, RelayEnd, join, relay_bytes, unchanged

Identity = TypeVar("Identity")


class RelayedPeers(Generic[Identity]):
    """Whose connection each one is, while it lasts."""

    def __init__(self) -> None:
        self._by_port: dict[int, Identity] = {}

    def find(self, peer: str) -> Identity | None:
        """Whose connection it is, given the peer in gRPC's words; None where no relay made it."""
        return self._by_port.get(int(peer.rpartition(":")[2] or 0))

    async def relay(
        self,
        client: socket.socket,
        server_port: int,
        identity: Identity,
        passing: Passing = unchanged,
    ) -> None:
        """Join a client to the server as `identity` until either has ended; closes the client."""
        with suppress(OSError):
            async with self.connect(server_port, identity) as server:
                await relay_bytes(client, server, passing)
        client.close()

    @asynccontextmanager
    async def connect(self, server_port: int, identity: Identity) -> AsyncIterator[socket.socket]:
        """A connection to the server as `identity`; raises OSError."""
        server = socket.socket()
        server.setblocking(False)  # noqa: FBT003
        port = 0
        try:
            server.bind((LOOPBACK, 0))
            port = server.getsockname()[1]
            self._by_port[port] = identity
            await asyncio.get_running_loop().sock_connect(server, (LOOPBACK, server_port))
            yield server
        finally:
            self._by_port.pop(port, None)
            server.close()


class LazyServer:
    """A server of gRPC that starts when the first client is led to it."""

    def __init__(self, start: Callable[[], Awaitable[int]]) -> None:
        """`start` starts the server and returns its port on loopback."""
        self._start = start
        self._port: asyncio.Future[int] | None = None
        self._peers: RelayedPeers[bool] = RelayedPeers()

    def admits(self, peer: str) -> bool:
        """Whether a connection to the server comes from here, given the peer in its words."""
        return self._peers.find(peer) is not None

    async def lead(self, client: RelayEnd) -> None:
        """Join a client to the server until either has ended."""
        if self._port is None:
            self._port = asyncio.ensure_future(self._start())
        port = await asyncio.shield(self._port)
        with suppress(OSError):
            async with self._peers.connect(port, identity=True) as server:
                await join(client, server)
