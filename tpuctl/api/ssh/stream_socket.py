"""Gives a stream of bytes that is not a socket the form of a socket."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

CHUNK_BYTES = 16 * 1024


class ByteStream(Protocol):
    """A stream of bytes in both directions."""

    async def receive(self) -> bytes:
        """The next bytes; b"" at the end. Raises OSError."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes; raises OSError."""
        ...

    async def close(self) -> None:
        """Close the stream."""
        ...


_copy_tasks: set[asyncio.Task[None]] = set()  # the loop alone would forget them


def socket_of(stream: ByteStream) -> socket.socket:
    """A socket whose other end is the stream, until either ends."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)  # noqa: FBT003
    task = asyncio.create_task(_carry(theirs, stream))
    _copy_tasks.add(task)
    task.add_done_callback(_copy_tasks.discard)
    return ours


async def _carry(near: socket.socket, far: ByteStream) -> None:
    loop = asyncio.get_running_loop()

    async def receive() -> bytes:
        return await loop.sock_recv(near, CHUNK_BYTES)

    async def send(data: bytes) -> None:
        await loop.sock_sendall(near, data)

    ways = [
        asyncio.create_task(_copy(receive, far.send)),
        asyncio.create_task(_copy(far.receive, send)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        try:
            await asyncio.gather(*ways, return_exceptions=True)
        finally:  # when the loop ends too, in the middle of that
            near.close()
        with contextlib.suppress(OSError):
            await far.close()


async def _copy(
    receive: Callable[[], Awaitable[bytes]], send: Callable[[bytes], Awaitable[None]]
) -> None:
    with contextlib.suppress(OSError):
        while data := await receive():
            await send(data)
