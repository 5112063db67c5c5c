"""The line between a client and a worker's SSH server: it can go dead, and come back."""

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
        """`serve` makes the server's end, once the line works."""
        super().__init__()
        self.server: asyncssh.SSHServerConnection | None = None
        self._serve = serve
        self._is_dead = is_dead
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._unsaid: list[bytes] = []
        self._is_abandoned = False

    def die(self) -> None:
        """Carry nothing any more."""
        self._is_dead = True
        if self._transport:
            self._transport.pause_reading()

    def revive(self) -> None:
        """Carry what has waited, and everything from now on."""
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
        """Break the connection, dead or not."""
        if self._transport:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        assert isinstance(transport, asyncio.Transport)  # TCP's
        self._transport = transport
        if self._is_dead:
            transport.pause_reading()
        else:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._transport = None
        self._ended(self)
        if self.server:
            self.server.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The client says something."""
        if self.server:
            self.server.data_received(data)

    def eof_received(self) -> None:
        """The client says no more."""
        if self.server:
            self.server.eof_received()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, or keep until the line works."""
        if self._is_dead:
            self._unsaid.append(bytes(data))
        elif self._transport:
            self._transport.write(data)

    def abort(self) -> None:
        """Break the connection; a dead line only looks broken to the server."""
        self._is_abandoned = True
        if self._transport and not self._is_dead:
            self._transport.abort()

    close = abort

    def is_closing(self) -> bool:
        """Whether it is broken, as the server sees it."""
        return self._is_abandoned or self._transport is None or self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known of the TCP connection."""
        return self._transport.get_extra_info(name, default) if self._transport else default

    def _begin(self) -> None:
        self.server = self._serve()
        self.server.connection_made(self)
