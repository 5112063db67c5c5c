"""Ports of this machine that lead to ports of a worker, for as long as somebody wants them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from tpuctl.errors import LocalIOError, PreconditionError, TransientError, UsageError

ADDRESS = "127.0.0.1"
CHUNK_BYTES = 64 * 1024
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 15.0
PATIENCE_S = 30.0
"""How long a connection that somebody made waits for the worker to be back."""
_LARGEST = 65535


@dataclass(frozen=True, slots=True)
class PortForward:
    """A port of this machine, and the port of the worker that it leads to."""

    worker_id: int
    local_port: int
    remote_port: int
    local_address: str = ADDRESS


class PortStream(Protocol):
    """A stream to a port of a worker; its methods raise OSError when it breaks."""

    async def read(self) -> bytes:
        """Return the next bytes; none at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes."""

    def write_eof(self) -> None:
        """Tell the worker's end that there is no more to send."""

    def close(self) -> None:
        """Close the stream."""


class PortLink(Protocol):
    """A connection to a worker through which its ports are reached."""

    async def dial(self, port: int) -> PortStream:
        """Connect to a port of the worker. Raises PreconditionError, TransientError."""

    async def broken(self) -> None:
        """Wait until the connection breaks."""


class ForwardObserver(Protocol):
    """Is told what happens while ports are forwarded."""

    def ready(self) -> None:
        """The ports can be used."""

    def lost(self, why: str) -> None:
        """The connection broke; the worker is looked for again."""

    def back(self) -> None:
        """The worker is connected again."""

    def refused(self, why: str) -> None:
        """A port of the worker refused a connection."""


Connect = Callable[[], AbstractAsyncContextManager[PortLink]]


def parse_ports(worker_id: int, specs: Sequence[str]) -> list[PortForward]:
    """Parse arguments of the form `[LOCAL:]REMOTE`. Raises UsageError."""
    found = [_parse_port(worker_id, spec) for spec in specs]
    chosen = [one.local_port for one in found if one.local_port]
    twice = next((port for port in chosen if chosen.count(port) > 1), None)
    if twice:
        raise UsageError(f"port {twice} of this machine is named twice")
    return found


def _parse_port(worker_id: int, spec: str) -> PortForward:
    local, colon, remote = spec.rpartition(":")
    local = local if colon else remote
    numbers = [int(part) if _is_number(part) else -1 for part in (local, remote)]
    if not (0 <= numbers[0] <= _LARGEST and 1 <= numbers[1] <= _LARGEST):
        raise UsageError(
            f"{spec!r} names no ports", hint="write REMOTE, LOCAL:REMOTE, or 0:REMOTE for any"
        )
    return PortForward(worker_id, local_port=numbers[0], remote_port=numbers[1])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6


class Listeners:
    """The open ports of this machine; a context manager."""

    def __init__(self, wanted: Sequence[PortForward], again: str) -> None:
        """Open the ports. `again`: the command to repeat with another port. Raises LocalIOError."""
        self.ports: list[PortForward] = []
        self.sockets: list[socket.socket] = []
        with ExitStack() as undo:
            for one in wanted:
                listening = undo.enter_context(_listen(one, again))
                self.sockets.append(listening)
                port = listening.getsockname()[1]
                self.ports.append(replace(one, local_port=port))
            undo.pop_all()

    def __enter__(self) -> Listeners:
        return self

    def __exit__(self, *_error: object) -> None:
        for each in self.sockets:
            each.close()


def _listen(one: PortForward, again: str) -> socket.socket:
    try:
        return socket.create_server((ADDRESS, one.local_port))
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise LocalIOError(
            f"cannot listen on {ADDRESS}:{one.local_port}: {why}",
            hint=f"let a free one be chosen: {again} 0:{one.remote_port}",
        ) from error


async def forward(listeners: Listeners, connect: Connect, told: ForwardObserver) -> None:
    """Forward until cancelled, also when the connection breaks and comes back.

    Raises TransientError when the worker cannot be reached at first; what else `connect` raises,
    such as PreemptedError, at any time.
    """
    forwarding = PortForwarder(told)
    async with forwarding.serving(listeners):
        await forwarding.keep(connect)


class PortForwarder:
    """Holds the current link to a worker, and carries the connections that go over it."""

    def __init__(self, told: ForwardObserver) -> None:
        self._told = told
        self._link: asyncio.Future[PortLink] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._refusals: dict[int, str] = {}

    @asynccontextmanager
    async def serving(self, listeners: Listeners) -> AsyncIterator[None]:
        """Accept connections to the local ports in the meantime."""
        try:
            for one, listening in zip(listeners.ports, listeners.sockets, strict=True):
                server = await asyncio.start_server(self._taker(one), sock=listening)
                self._servers.append(server)
            yield
        finally:
            await self._close()

    async def keep(self, connect: Connect) -> None:
        """Keep a link to the worker, and make a new one whenever it breaks."""
        pause_s, was_ready = FIRST_PAUSE_S, False
        while True:
            try:
                async with connect() as link:
                    self._link.set_result(link)
                    (self._told.back if was_ready else self._told.ready)()
                    pause_s, was_ready = FIRST_PAUSE_S, True
                    await link.broken()
                why = "the connection broke"
            except TransientError as error:
                if not was_ready:
                    raise
                why = str(error)
            if self._link.done():
                self._link = asyncio.get_running_loop().create_future()
                self._told.lost(why)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _taker(self, one: PortForward) -> Callable[..., None]:
        def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._carry(one, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return take

    async def _carry(
        self, one: PortForward, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry one connection in both directions until it ends."""
        try:
            stream = await self._dialed(one.remote_port)
            if stream is None:
                return
            try:
                await asyncio.gather(_upward(reader, stream), _downward(stream, writer))
            finally:
                stream.close()
        except OSError:
            pass  # one of its ends is gone
        finally:
            writer.close()

    async def _dialed(self, port: int) -> PortStream | None:
        """A connection on the worker; None when there is none, which is told once in a row."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                link = await asyncio.shield(self._link)
            stream = await link.dial(port)
        except (TimeoutError, TransientError):
            return None  # that it is lost was told already
        except PreconditionError as error:
            if self._refusals.get(port) != str(error):
                self._refusals[port] = str(error)
                self._told.refused(str(error))
            return None
        self._refusals.pop(port, None)
        return stream


async def _upward(reader: asyncio.StreamReader, stream: PortStream) -> None:
    while data := await reader.read(CHUNK_BYTES):
        await stream.write(data)
    stream.write_eof()


async def _downward(stream: PortStream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.read():
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()
