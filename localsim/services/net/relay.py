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
    loop = asyncio.get_running_loop()
    ends = _End(passing), _End(unchanged)
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    try:
        await loop.connect_accepted_socket(lambda: ends[0], one)
        await loop.connect_accepted_socket(lambda: ends[1], other)
        for end in ends:
            end.begin()
        await asyncio.gather(*(end.lost.wait() for end in ends))
    finally:
        for end, connection in zip(ends, (one, other), strict=True):
            end.abort()
            if end.transport is None:
                connection.close()


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


class _End(asyncio.Protocol):
    """One of the two connections."""

    peer: "_End"

    def __init__(self, passing: Passing) -> None:
        self._passing = passing
        self.transport: asyncio.Transport | None = None
        self.lost = asyncio.Event()
        self.is_at_end = False

    def begin(self) -> None:
        """Start to carry bytes; both ends exist."""
        if self.transport and not self.transport.is_closing():
            self.transport.resume_reading()

    def abort(self) -> None:
        """Break the connection."""
        if self.transport:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # TCP's
        self.transport = transport
        transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        if self.peer.transport is None:
            return
        try:
            self.peer.transport.write(self._passing(data))
        except OSError:
            self.abort()

    def eof_received(self) -> bool:
        self.is_at_end = True
        if self.peer.transport and not self.peer.transport.is_closing():
            self.peer.transport.write_eof()
        return not self.peer.is_at_end

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        if self.peer.transport:
            # What has been written to the peer still goes out, unless this end has broken.
            if exc is None and self.peer.is_at_end:
                self.peer.transport.close()
            else:
                self.peer.transport.abort()

    def pause_writing(self) -> None:
        if self.peer.transport:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer.transport and not self.peer.transport.is_closing():
            self.peer.transport.resume_reading()
