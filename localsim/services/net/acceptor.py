"""Accepts connections on listening sockets and serves each in a task of its own."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

_PAUSE_S = 0.1
"""When no descriptor is left for the next connection."""


class Acceptor:
    """Accepts connections until it is closed."""

    def __init__(self, serve: Callable[[socket.socket], Awaitable[None]]) -> None:
        """`serve` gets a connected, non-blocking socket, and closes it or gives it away."""
        self._serve = serve
        self._listening: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, listening: socket.socket) -> None:
        """Accept connections on this socket too; it is closed with the acceptor."""
        listening.setblocking(False)  # noqa: FBT003
        self._listening.append(listening)
        self._watch(listening)

    async def close(self) -> None:
        """Break the connections that are served, and stop."""
        listening, self._listening = self._listening, []
        for port in listening:
            asyncio.get_running_loop().remove_reader(port)
            port.close()
        await self.break_connections()

    async def break_connections(self) -> int:
        """Break the connections that are served now, and return how many."""
        await asyncio.sleep(0)  # a task that is cancelled before it begins closes nothing
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(tasks)

    def _watch(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            loop.remove_reader(listening)
            loop.call_later(_PAUSE_S, self._watch, listening)
            return
        connection.setblocking(False)  # noqa: FBT003
        task = asyncio.ensure_future(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
