"""Ports of this machine that lead to ports of a worker, for as long as somebody wants them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tpuctl.errors import LocalIOError, PreconditionError, TransientError, UsageError

if TYPE_CHECKING:
    from tpuctl.api.ssh.tunnels import TunnelStream, WorkerTunnels

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


Listener = tuple[PortForward, socket.socket]
Connect: TypeAlias = "Callable[[], AbstractAsyncContextManager[WorkerTunnels]]"
"""Opens a connection to the worker through which its ports are reached."""


def parse_ports(worker_id: int, specs: Sequence[str]) -> list[PortForward]:
    """Parse arguments of the form `[LOCAL:]REMOTE`. Raises UsageError."""
    ports = [_parse_port(worker_id, spec) for spec in specs]
    chosen = [port.local_port for port in ports if port.local_port]
    twice = next((port for port in chosen if chosen.count(port) > 1), None)
    if twice:
        raise UsageError(f"port {twice} of this machine is named twice")
    return ports


def _parse_port(worker_id: int, spec: str) -> PortForward:
    local, colon, remote = spec.rpartition(":")
    local = local if colon else remote
    numbers = [int(part) if _is_number(part) else -1 for part in (local, remote)]
    if not (0 <= numbers[0] <= _LARGEST and 1 <= numbers[1] <= _LARGEST):
        raise UsageError(
            f"{spec!r} does not name ports", hint="write REMOTE, LOCAL:REMOTE, or 0:REMOTE for any"
        )
    return PortForward(worker_id, local_port=numbers[0], remote_port=numbers[1])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6


@contextmanager
def listen(wanted: Sequence[PortForward], again: str) -> Iterator[list[Listener]]:
    """Open the local ports of `wanted` for the block; each comes back with its real number.

    `again` is the command to repeat with another port. Raises LocalIOError.
    """
    with ExitStack() as opened:
        listeners = []
        for port in wanted:
            listening = opened.enter_context(_listen(port, again))
            chosen = replace(port, local_port=listening.getsockname()[1])
            listeners.append((chosen, listening))
        yield listeners


def _listen(port: PortForward, again: str) -> socket.socket:
    try:
        return socket.create_server((ADDRESS, port.local_port))
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise LocalIOError(
            f"cannot listen on {ADDRESS}:{port.local_port}: {why}",
            hint=f"let a free one be chosen: {again} 0:{port.remote_port}",
        ) from error


async def forward(
    listeners: Sequence[Listener], connect: Connect, observer: ForwardObserver
) -> None:
    """Forward until cancelled, also when the connection breaks and comes back.

    Raises TransientError when the worker cannot be reached at first; what else `connect` raises,
    such as PreemptedError, at any time.
    """
    forwarder = PortForwarder(observer)
    servers: list[asyncio.Server] = []
    try:
        for port, listening in listeners:
            taker = forwarder.taker(port)
            servers.append(await asyncio.start_server(taker, sock=listening))
        await forwarder.keep_link(connect)
    finally:
        for server in servers:
            server.close()
        await forwarder.close()


class PortForwarder:
    """Holds the current link to a worker, and carries the connections that go over it."""

    def __init__(self, observer: ForwardObserver) -> None:
        self._observer = observer
        self._link: asyncio.Future[WorkerTunnels] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals: dict[int, str] = {}

    async def keep_link(self, connect: Connect) -> None:
        """Keep a link to the worker, and make a new one whenever it breaks."""
        pause_s, was_ready = FIRST_PAUSE_S, False
        while True:
            try:
                async with connect() as link:
                    self._link.set_result(link)
                    (self._observer.back if was_ready else self._observer.ready)()
                    pause_s, was_ready = FIRST_PAUSE_S, True
                    await link.broken()
                why = "the connection broke"
            except TransientError as error:
                if not was_ready:
                    raise
                why = str(error)
            if self._link.done():
                self._link = asyncio.get_running_loop().create_future()
                self._observer.lost(why)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Cancel the connections that are being carried, and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def taker(self, port: PortForward) -> Callable[..., None]:
        """Return a callback for asyncio.start_server that carries connections to a port."""

        def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._carry(port, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return take

    async def _carry(
        self, port: PortForward, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry one connection in both directions until it ends."""
        try:
            stream = await self._dial(port.remote_port)
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

    async def _dial(self, port: int) -> TunnelStream | None:
        """Connect to a port of the worker; None when that fails. A refusal is reported once."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                link = await asyncio.shield(self._link)
            stream = await link.dial(port)
        except (TimeoutError, TransientError):
            return None  # the observer knows already that the link is lost
        except PreconditionError as error:
            if self._refusals.get(port) != str(error):
                self._refusals[port] = str(error)
                self._observer.refused(str(error))
            return None
        self._refusals.pop(port, None)
        return stream


async def _upward(reader: asyncio.StreamReader, stream: TunnelStream) -> None:
    while data := await reader.read(CHUNK_BYTES):
        await stream.write(data)
    stream.write_eof()


async def _downward(stream: TunnelStream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.read():
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()
