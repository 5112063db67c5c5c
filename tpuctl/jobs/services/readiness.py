"""Whether a replica's engine is ready: one HTTP request to a port of a worker, by asyncio alone."""

import asyncio
from contextlib import suppress

from tpuctl.errors import TpuctlError
from tpuctl.jobs.interfaces import PortDialer
from tpuctl.models.node import Node, Worker

ANSWER_S = 5.0
"""An engine that takes longer to say that it is ready is not."""
LINE_BYTES = 4096


async def is_ready(dial: PortDialer, node: Node, worker: Worker, port: int, path: str) -> bool:
    """Whether GET of the path answers 200; False for an engine that cannot be asked as well."""
    try:
        async with asyncio.timeout(ANSWER_S):
            connection = await dial(node, worker, port)
            reader, writer = await asyncio.open_connection(sock=connection, limit=LINE_BYTES)
            try:
                return await _ask(reader, writer, f"{worker.ip_address}:{port}", path)
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (TpuctlError, OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
        return False


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, path: str
) -> bool:
    request = (
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tpuctl\r\nConnection: close\r\n\r\n"
    )
    writer.write(request.encode("ascii"))
    await writer.drain()
    words = (await reader.readline()).split(None, 2)
    return len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1] == b"200"
