"""The server to which a worker's programs report that they hold its chips.

A connection is greeted with {"lock": path, "devices": [paths]}. A program that has the lock sends
{"hold": pid}, is answered {"metrics": port}, and then sends {"bytes": [...], "busy": share} as
often as it likes. When the connection ends, however the program does, it holds the chips no more.
Port 8431 is open while a program holds them.
"""

import asyncio
import contextlib
import json
import socket
import time
import weakref
from collections.abc import Callable
from typing import Any

from localsim.services.net.acceptor import Acceptor
from localsim.services.worker.tpu_metrics import MetricServer
from localsim.workers import chips
from localsim.workers.chip_holders import (
    MAX_LINE_BYTES,
    ChipFiles,
    ChipHolders,
    MalformedUsageError,
    read_usage,
)
from localsim.workers.worker import Worker

ADDRESS_VARIABLE = "LOCALSIM_CHIPS"
"""The variable by which programs find the server."""


class ChipLockServers:
    """Opens the chip lock server of each worker."""

    def __init__(self, files: Callable[[Worker], ChipFiles]) -> None:
        """`files` are the paths of the chips on a worker."""
        self._files = files
        self._server = MetricServer()
        self._holders: weakref.WeakKeyDictionary[Worker, ChipHolders] = weakref.WeakKeyDictionary()

    async def open(self, worker: Worker, listening: socket.socket) -> "ChipLockServer":
        """Listen for a worker's programs, which find the server by an environment variable."""
        host, port = listening.getsockname()
        worker.variables[ADDRESS_VARIABLE] = f"{host}:{port}"
        server = ChipLockServer(worker, self._files(worker), self._server, listening)
        self._holders[worker] = server.holders
        return server

    def holders(self, worker: Worker) -> ChipHolders | None:
        """Who holds the chips of a worker; None where its server was never opened."""
        return self._holders.get(worker)


class ChipLockServer:
    """The chip lock server of one worker, and the metric service behind it."""

    def __init__(
        self, worker: Worker, files: ChipFiles, server: MetricServer, listening: socket.socket
    ) -> None:
        self._worker = worker
        self._greeting = {"lock": files.lock, "devices": files.devices}
        self._server = server
        self.holders = ChipHolders(worker.kind, time.monotonic)
        self._metrics: Acceptor | None = None
        self._metrics_port = 0
        self._changing = asyncio.Lock()
        self._programs = Acceptor(self._serve)
        self._programs.open(listening)

    async def close(self) -> None:
        """Break every connection and stop."""
        await self._programs.close()
        await self._adjust()

    async def _serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_LINE_BYTES)
        holder = object()
        try:
            await _send(writer, self._greeting)
            if not _holds(await reader.readline()):
                return
            self.holders.begin(holder)
            await self._adjust()
            await _send(writer, {"metrics": self._metrics_port})
            while line := await reader.readline():
                self.holders.tell(holder, read_usage(line))
        except (OSError, ValueError, RecursionError, MalformedUsageError):
            return  # it has gone, or makes no sense
        finally:
            writer.transport.abort()
            self.holders.end(holder)
            await asyncio.shield(self._adjust())  # `close` waits for it as well

    async def _adjust(self) -> None:
        """Serve metrics while somebody holds the chips, and only then."""
        async with self._changing:
            if self.holders.are_held == (self._metrics is not None):
                return
            if self._metrics is not None:
                await self._metrics.close()
                self._metrics, self._metrics_port = None, 0
                await self._server.end()
                return
            with contextlib.suppress(OSError):  # a program has taken the port
                listening = await self._worker.host.listen(chips.METRICS_PORT)
                with contextlib.ExitStack() as until_served:
                    until_served.enter_context(listening)
                    await self._server.begin()
                    until_served.pop_all()
                self._metrics_port = listening.getsockname()[1]
                self._metrics = Acceptor(self._relay)
                self._metrics.open(listening)

    async def _relay(self, client: socket.socket) -> None:
        """Join a client to the metric server, which is told whose chips it means."""
        whose = self._worker.hostname, self.holders
        await self._server.peers.relay(client, self._server.port, whose)


def _holds(line: bytes) -> bool:
    """Whether a program reports that it has the lock; raises ValueError."""
    words = json.loads(line) if line else None
    return isinstance(words, dict) and isinstance(words.get("hold"), int)


async def _send(writer: asyncio.StreamWriter, words: dict[str, Any]) -> None:
    writer.write(json.dumps(words).encode() + b"\n")
    await writer.drain()
