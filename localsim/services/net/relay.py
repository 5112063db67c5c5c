"""Joins two connections: what one receives is sent to the other."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

Connect = Callable[[], Awaitable[socket.socket]]
"""A new connected, non-blocking socket; raises OSError."""
Passing = Callable[[bytes], bytes]
"""What is sent on for what was received; raises OSError when the connection is to break."""


def unchanged(data: bytes) -> bytes:
    """Send on what was received."""
    return data


async def relay_bytes(
    one: socket.socket, other: socket.socket, passing: Passing = unchanged
) -> None:
    """Carry bytes both ways until both have ended, or either breaks; closes both sockets.

    `passing` gets the bytes from `one`.
    """
    client = RelayEnd(passing)
    try:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: client, one)
        await join(client, other)
    finally:
        for end, connection in ((client, one), (client.peer, other)):
            if end.transport is None:
                connection.close()


async def join(client: "RelayEnd", server: socket.socket) -> None:
    """Do the same between a connection that is a client's end already and a socket."""
    try:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: client.peer, server)
        if client.lost.is_set():
            return
        for end in (client, client.peer):
            end.begin()
        await asyncio.gather(client.lost.wait(), client.peer.lost.wait())
    finally:
        for end in (client, client.peer):
            end.abort()


def relay_to(connect: Connect) -> Callable[[socket.socket], Awaitable[None]]:
    """A function that joins each client to a new connection."""

    async def serve(client: socket.socket) -> None:
        try:
            server = await connect()
        except BaseException as error:
            client.close()
            if isinstance(error, OSError):
                return  # nobody is there: as little is said as a closed port says
            raise
        await relay_bytes(client, server)

    return serve


class RelayEnd(asyncio.Protocol):
    """One of the two connections; its peer is the other."""

    def __init__(self, passing: Passing = unchanged, peer: "RelayEnd | None" = None) -> None:
        self._passing = passing
        self.transport: asyncio.Transport | None = None
        self.lost = asyncio.Event()
        self.is_at_end = False
        self.peer: RelayEnd = peer or RelayEnd(peer=self)
        self._early: bytearray | None = bytearray()
        """What came before both ends existed; None after that."""

    def begin(self) -> None:
        """Start to carry bytes; both ends exist."""
        early, self._early = self._early, None
        if early:
            self.data_received(bytes(early))
        if self.is_at_end:
            self._end_peer()
        if self.transport and not self.transport.is_closing():
            self.transport.resume_reading()

    def abort(self) -> None:
        """Break the connection."""
        if self.transport:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait with reading until both ends exist.

        Python 3.11.2 reads all the same once this returns: `begin` sends on what came that early.
        """
        assert isinstance(transport, asyncio.Transport)  # TCP's
        self.transport = transport
        transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Send it on."""
        if self._early is not None:
            self._early += data
            return
        if self.peer.transport is None:
            return
        try:
            self.peer.transport.write(self._passing(data))
        except OSError:
            self.abort()

    def eof_received(self) -> bool:
        """End the other direction too, once what came before is sent."""
        self.is_at_end = True
        if self._early is None:
            self._end_peer()
        keeps_writing = self.transport is not None and self.transport.can_write_eof()
        return keeps_writing and not self.peer.is_at_end

    def _end_peer(self) -> None:
        if self.peer.transport and not self.peer.transport.is_closing():
            if self.peer.transport.can_write_eof():
                self.peer.transport.write_eof()
            else:  # TLS knows no half of a connection
                self.peer.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the peer along."""
        self.lost.set()
        if self.peer.transport:
            # What has been written to the peer still goes out, unless this end has broken.
            if exc is None and self.peer.is_at_end:
                self.peer.transport.close()
            else:
                self.peer.transport.abort()

    def pause_writing(self) -> None:
        """Let the peer wait for this end's reader."""
        if self.peer.transport:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """Let the peer go on."""
        if self.peer.transport and not self.peer.transport.is_closing():
            self.peer.transport.resume_reading()
