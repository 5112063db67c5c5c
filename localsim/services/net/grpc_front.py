"""What stands before the server of gRPC without TLS: it takes the connections and leads them on.

The server's own port is a number that changes, where only connections from here are answered. So it
is here that a connection of another user is refused (loopback.py), and a call for another host.
"""

import socket
from collections.abc import Collection
from contextlib import suppress

from localsim.services.net.acceptor import Acceptor
from localsim.services.net.call_authority import AuthorityMarker
from localsim.services.net.relay import Passing, RelayEnd, join
from localsim.services.net.relayed_peers import RelayedPeers


class GrpcFront(Acceptor):
    """The connections to one gRPC server."""

    def __init__(self, hosts: Collection[str]) -> None:
        """`hosts` are the values of `:authority` that are this server's."""
        self.server_port = 0
        self._hosts = frozenset(hosts)
        self._peers: RelayedPeers[bool] = RelayedPeers()
        super().__init__(self._lead)

    def admits(self, peer: str) -> bool:
        """Whether a connection to the server comes from here, given the peer in gRPC's words."""
        return self._peers.find(peer) is not None

    def passing(self) -> Passing:
        """What the bytes of one client pass through on their way."""
        return AuthorityMarker(self._hosts).pass_on

    async def lead(self, client: RelayEnd) -> None:
        """Lead a client that has come to another port, whose bytes pass through `passing`."""
        with suppress(OSError):
            async with self._peers.connect(self.server_port, identity=True) as server:
                await join(client, server)

    async def _lead(self, client: socket.socket) -> None:
        await self._peers.relay(client, self.server_port, True, self.passing())  # noqa: FBT003
