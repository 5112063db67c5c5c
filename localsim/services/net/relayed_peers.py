"""A server of gRPC on a loopback port of its own, which only this process leads clients to.

What the server sees of a connection is a port number: a relay says beforehand whose it is. Whoever
finds the server's port without a relay is nobody.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Generic, TypeVar

from localsim.loopback import LOOPBACK
from localsim.services.net.relay import Passing, relay_bytes, unchanged

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
