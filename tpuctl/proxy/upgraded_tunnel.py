"""Carries the bytes of a connection after `101 Switching Protocols`, as they come, both ways.

Frames of WebSockets are not read: subprotocols, extensions, close codes and fragments stay whole,
and no message is held.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from aiohttp.base_protocol import BaseProtocol


class UpgradedTunnel:
    """Two connections, each of which gets what the other one sends."""

    def __init__(self, client: BaseProtocol, replica: BaseProtocol) -> None:
        self._ended = asyncio.Event()
        self._pauses: set[asyncio.Task[None]] = set()
        self.from_client = _Direction(self, client, replica)
        self.from_replica = _Direction(self, replica, client)

    async def carry(self) -> None:
        """Return when either connection has ended, and what came of it was written."""
        try:
            await self._ended.wait()
        finally:
            for task in self._pauses:
                task.cancel()

    def end(self) -> None:
        """Note that a connection has ended."""
        self._ended.set()

    def start(self, task: Coroutine[None, None, None]) -> None:
        """Run something until the tunnel ends."""
        running = asyncio.create_task(task)
        self._pauses.add(running)
        running.add_done_callback(self._pauses.discard)


class _Direction:
    """Takes the bytes of one connection in the place of aiohttp's reader of WebSockets."""

    def __init__(self, tunnel: UpgradedTunnel, source: BaseProtocol, target: BaseProtocol) -> None:
        self._tunnel = tunnel
        self._source = source
        self._target = target
        self._is_paused = False

    def feed_data(self, data: Any) -> tuple[bool, bytes]:
        """Send bytes on at once."""
        transport = self._target.transport
        if transport is None or transport.is_closing():
            self._tunnel.end()
            return False, b""
        transport.write(data)
        if self._target.writing_paused and not self._is_paused:
            self._is_paused = True
            self._source.pause_reading()
            self._tunnel.start(self._resume_when_sent())
        return False, b""

    async def _resume_when_sent(self) -> None:
        """Read on once the other connection has sent what it was given."""
        try:
            await self._target._drain_helper()  # noqa: SLF001
        except ConnectionError:
            self._tunnel.end()
        else:
            self._is_paused = False
            self._source.resume_reading()

    def feed_eof(self) -> None:
        """End both connections."""
        self._tunnel.end()
