"""The connection between a client and a worker's SSH server, which can go silent and come back."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncssh


class SshTransport(asyncio.Protocol, asyncio.Transport):
    """A TCP connection's protocol, and its transport as the SSH server sees it.

    While it is dead nothing is read, and what the server says or does waits.
    """

    def __init__(
        self,
        serve: Callable[[], asyncssh.SSHServerConnection],
        *,
        is_dead: bool,
        ended: Callable[["SshTransport"], None],
    ) -> None:
        """`serve` makes the server's end once bytes are carried."""
        super().__init__()
        self.server: asyncssh.SSHServerConnection | None = None
        self._serve = serve
        self._is_dead = is_dead
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._unsaid: list[bytes] = []
        self._is_abandoned = False

    def die(self) -> None:
        """Stop carrying bytes."""
        self._is_dead = True
        if self._transport:
            self._transport.pause_reading()

    def revive(self) -> None:
        """Carry the bytes that have waited, and all bytes from now on."""
        self._is_dead = False
        if self._transport is None:
            return
        if self.server is None:
            self._begin()
        self._transport.writelines(self._unsaid)
        self._unsaid.clear()
        if self._is_abandoned:
            self._transport.abort()
        else:
            self._transport.resume_reading()

    def cut(self) -> None:
        """Break the connection."""
        if self._transport:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the TCP connection."""
        assert isinstance(transport, asyncio.Transport)  # TCP's
        self._transport = transport
        if self._is_dead:
            transport.pause_reading()
        else:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the server that the TCP connection is gone."""
        self._transport = None
        self._ended(self)
        if self.server:
            self.server.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hand the client's bytes to the server."""
        if self.server:
            self.server.data_received(data)

    def eof_received(self) -> None:
        """Tell the server that the client sends no more."""
        if self.server:
            self.server.eof_received()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, or keep them until the connection is carried again."""
        if self._is_dead:
            self._unsaid.append(bytes(data))
        elif self._transport:
            self._transport.write(data)

    def abort(self) -> None:
        """Break the connection; one that is silent only looks broken to the server."""
        self._is_abandoned = True
        if self._transport and not self._is_dead:
            self._transport.abort()

    close = abort

    def is_closing(self) -> bool:
        """Whether it is broken from the server's view."""
        return self._is_abandoned or self._transport is None or self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """A property of the TCP connection."""
        return self._transport.get_extra_info(name, default) if self._transport else default

    def _begin(self) -> None:
        self.server = self._serve()
        self.server.connection_made(self)
