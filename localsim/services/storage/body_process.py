"""Large bodies are received by another process (receiver.py), which leaves the event loop to calls.

aiohttp reads the head of a request and what has come with it; the rest is read from its socket by
that process. What has been read past aiohttp it cannot go on from, so such a connection is closed
after the answer.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import google_crc32c
from aiohttp import web

from localsim.rules.objects.files.durable_files import disk_errors
from localsim.rules.objects.files.incoming_body import IncomingBody
from localsim.rules.objects.storage_model import StorageError
from localsim.services.storage.receiver import ORDER, REPORT

LEAST_BYTES = 1024 * 1024
"""Less than this is received sooner than another process is told of it."""
_PROGRAM = Path(__file__).with_name("receiver.py")
_LIBRARIES = Path(google_crc32c.__file__).parents[1]


class BodyProcess:
    """Starts the process when the first large body comes, and gives it work."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None

    async def receive(self, client: socket.socket, body: IncomingBody, size_bytes: int) -> None:
        """Append the next bytes of the client, or less when it has gone; raises StorageError."""
        while size_bytes:
            asked = min(size_bytes, body.until_flush_bytes)
            before = body.size_bytes
            await self._receive(client, body, asked)
            if body.size_bytes < before + asked:
                raise ConnectionResetError("the client has gone")
            size_bytes -= asked

    def close(self) -> None:
        """End the process; what it receives breaks off."""
        if self._orders is not None:
            self._orders.close()
            self._orders = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def _receive(self, client: socket.socket, body: IncomingBody, size_bytes: int) -> None:
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)  # noqa: FBT003
            with theirs:
                self._send(
                    ORDER.pack(size_bytes, body.crc32c),
                    [client.fileno(), body.descriptor(), theirs.fileno()],
                )
            loop = asyncio.get_running_loop()
            report = asyncio.ensure_future(loop.sock_recv(ours, REPORT.size))
            try:
                await asyncio.shield(report)
            finally:
                if not report.done():  # the request is cancelled; what has come so far counts
                    ours.shutdown(socket.SHUT_WR)
                flush = _count(body, await report)
        if flush is not None:
            await asyncio.wrap_future(flush)

    def _send(self, order: bytes, descriptors: list[int]) -> None:
        """Send an order, to a new process where there is none; raises OSError."""
        if self._orders is not None:
            try:
                socket.send_fds(self._orders, [order], descriptors)
            except BrokenPipeError:
                self.close()
            else:
                return
        self._orders = self._start()
        socket.send_fds(self._orders, [order], descriptors)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        descriptor = theirs.fileno()
        argv = [sys.executable, "-I", "-S", str(_PROGRAM), str(descriptor), str(_LIBRARIES)]
        try:
            with theirs:
                self._process = subprocess.Popen(
                    argv,
                    pass_fds=(descriptor,),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env={},
                    cwd="/",
                )
        except BaseException:
            ours.close()
            raise
        return ours


def _count(body: IncomingBody, report: bytes) -> "Future[None] | None":
    """Take note of what was received; raises StorageError where some of it could not be written."""
    if len(report) < REPORT.size:
        raise StorageError(503, "backendError", "The process that received the body has ended.")
    written_bytes, crc32c, error = REPORT.unpack(report)
    flush = body.count(written_bytes, crc32c)
    if error:
        with disk_errors():
            raise OSError(error, os.strerror(error))
    return flush


def left_bytes(request: web.Request) -> int:
    """How much of a body another process may receive: 0 unless it is long, and as it is stored."""
    length, transport = request.content_length, request.transport
    is_packed = request.headers.get("Content-Encoding", "identity").strip().lower() != "identity"
    if length is None or transport is None or request.secure or is_packed:
        return 0
    left = length - request.content.total_bytes
    return left if left >= LEAST_BYTES else 0


@contextmanager
def take_over(request: web.Request) -> Iterator[tuple[bytes, socket.socket]]:
    """What of the body aiohttp has read, and the socket with the rest, until the context ends.

    Raises ConnectionResetError where the client has gone.
    """
    received = bytearray()
    while data := request.content.read_nowait():
        received += data
    if request.transport is None:
        raise ConnectionResetError("the client has gone")
    request.transport.pause_reading()
    try:
        yield bytes(received), request.transport.get_extra_info("socket")
    finally:
        request.content.feed_eof()  # aiohttp waits for no more of it


def is_taken(request: web.Request) -> bool:
    """Whether another process has received a part of the body: the connection has to end."""
    content = request.content
    return content.is_eof() and content.total_bytes < (request.content_length or 0)
