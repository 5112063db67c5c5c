"""Gives a stream of bytes that is not a socket the form of a socket."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

CHUNK_BYTES = 16 * 1024


Receive = Callable[[], Awaitable[bytes]]
"""The next bytes of a stream; b"" at its end. Raises OSError."""
Send = Callable[[bytes], Awaitable[None]]
"""Sends bytes to a stream. Raises OSError."""
Close = Callable[[], Awaitable[None] | None]
_copy_tasks: set[asyncio.Task[None]] = set()  # the loop alone would forget them


def socket_of(receive: Receive, send: Send, close: Close) -> socket.socket:
    """A socket whose other end is the stream of these functions, until either ends."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)  # noqa: FBT003
    task = asyncio.create_task(_carry(theirs, receive, send, close))
    _copy_tasks.add(task)
    task.add_done_callback(_copy_tasks.discard)
    return ours


async def _carry(near: socket.socket, receive: Receive, send: Send, close: Close) -> None:
    loop = asyncio.get_running_loop()

    ways = [
        asyncio.create_task(_copy(lambda: loop.sock_recv(near, CHUNK_BYTES), send)),
        asyncio.create_task(_copy(receive, lambda data: loop.sock_sendall(near, data))),
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
            if (closing := close()) is not None:
                await closing


async def _copy(receive: Receive, send: Send) -> None:
    with contextlib.suppress(OSError):
        while data := await receive():
            await send(data)
