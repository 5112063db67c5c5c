"""Waiting for file descriptors on the event loop: pipes, terminals, process handles."""

import asyncio
import errno
import os
from collections.abc import Callable

CHUNK_BYTES = 64 * 1024


async def wait_readable(descriptor: int) -> None:
    """Return when a read would not block."""
    loop = asyncio.get_running_loop()
    await _ready(loop.add_reader, loop.remove_reader, descriptor)


async def wait_writable(descriptor: int) -> None:
    """Return when a write would not block."""
    loop = asyncio.get_running_loop()
    await _ready(loop.add_writer, loop.remove_writer, descriptor)


async def read_some(descriptor: int) -> bytes:
    """Wait for and return the next bytes, up to CHUNK_BYTES; empty at the end."""
    await wait_readable(descriptor)
    return read_now(descriptor)


def read_now(descriptor: int) -> bytes:
    """Return what a non-blocking descriptor holds now; empty without any, and at the end."""
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except BlockingIOError:
        return b""
    except OSError as error:
        if error.errno == errno.EIO:  # how a terminal says that its last program has gone
            return b""
        raise


async def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte to a non-blocking descriptor; raises OSError when the reader has gone."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            await wait_writable(descriptor)


async def _ready(add: Callable[..., None], remove: Callable[[int], bool], descriptor: int) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    try:
        add(descriptor, _resolve, ready)
        await ready
    finally:
        remove(descriptor)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
