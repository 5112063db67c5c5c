"""The VPC's SOCKS5 port (RFC 1928): how a client on this machine reaches workers by their address.

No authentication, CONNECT only, and nothing but the doors of workers behind it.
"""

import asyncio
import contextlib
import ipaddress
import struct
from collections.abc import Callable
from typing import Self

HOST = "127.0.0.1"
HANDSHAKE_S = 10.0
CHUNK_BYTES = 64 * 1024
_VPC = ipaddress.ip_network("10.0.0.0/8")
_VERSION = 5
_NO_AUTHENTICATION = 0
_NO_ACCEPTABLE_METHOD = 0xFF
_CONNECT = 1
_IPV4, _DOMAIN, _IPV6 = 1, 3, 4

GRANTED = 0
NOT_ALLOWED = 2
HOST_UNREACHABLE = 4
CONNECTION_REFUSED = 5
COMMAND_NOT_SUPPORTED = 7
ADDRESS_TYPE_NOT_SUPPORTED = 8

Door = Callable[[str, int], tuple[str, int] | None]
"""Where on loopback a worker's address and port are served, None when nowhere."""
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _RefusedError(Exception):
    def __init__(self, reply: int) -> None:
        super().__init__(reply)
        self.reply = reply


class SocksServer:
    """The proxy and its connections."""

    def __init__(self, door: Door, *, handshake_s: float) -> None:
        self._door = door
        self._handshake_s = handshake_s
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def listen(self, port: int = 0) -> Self:
        """Open the port, a free one by default; raises OSError."""
        self._server = await asyncio.start_server(self._accept, HOST, port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        """Break every connection and stop."""
        if self._server:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve((reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: Stream) -> None:
        try:
            async with asyncio.timeout(self._handshake_s):
                worker = await self._handshake(client)
            if worker:
                await _relay(client, worker)
        except (OSError, EOFError, TimeoutError):
            return  # gone, or too slow to be served
        finally:
            client[1].transport.abort()

    async def _handshake(self, client: Stream) -> Stream | None:
        """Greeting, request, reply; the connection to the worker when it was granted."""
        reader, writer = client
        if not await _greet(reader, writer):
            return None
        try:
            worker = await self._connect(*await _request(reader))
        except _RefusedError as refused:
            await _reply(writer, refused.reply)
            return None
        try:
            await _reply(writer, GRANTED)
        except BaseException:
            worker[1].transport.abort()
            raise
        return worker

    async def _connect(self, address: str, port: int) -> Stream:
        try:
            inside = ipaddress.ip_address(address) in _VPC
        except ValueError:  # a name, and there is no name server
            raise _RefusedError(HOST_UNREACHABLE) from None
        door = self._door(address, port)
        if door is None:
            raise _RefusedError(HOST_UNREACHABLE if inside else NOT_ALLOWED)
        try:
            return await asyncio.open_connection(*door)
        except OSError:
            raise _RefusedError(CONNECTION_REFUSED) from None


async def serve_socks(
    door: Door, *, port: int = 0, handshake_s: float = HANDSHAKE_S
) -> SocksServer:
    """Open a SOCKS5 port in front of the doors; raises OSError."""
    return await SocksServer(door, handshake_s=handshake_s).listen(port)


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    version, count = await reader.readexactly(2)
    if version != _VERSION:
        return False
    accepted = _NO_AUTHENTICATION in await reader.readexactly(count)
    method = _NO_AUTHENTICATION if accepted else _NO_ACCEPTABLE_METHOD
    writer.write(bytes((_VERSION, method)))
    await writer.drain()
    return accepted


async def _request(reader: asyncio.StreamReader) -> tuple[str, int]:
    version, command, _, kind = await reader.readexactly(4)
    if version != _VERSION:
        raise EOFError
    address = await _address(reader, kind)
    (port,) = struct.unpack("!H", await reader.readexactly(2))
    if command != _CONNECT:
        raise _RefusedError(COMMAND_NOT_SUPPORTED)
    return address, port


async def _address(reader: asyncio.StreamReader, kind: int) -> str:
    if kind == _IPV4:
        return str(ipaddress.IPv4Address(await reader.readexactly(4)))
    if kind == _DOMAIN:
        (length,) = await reader.readexactly(1)
        return (await reader.readexactly(length)).decode("ascii", "replace")
    raise _RefusedError(ADDRESS_TYPE_NOT_SUPPORTED)


async def _reply(writer: asyncio.StreamWriter, reply: int) -> None:
    writer.write(struct.pack("!BBBBIH", _VERSION, reply, 0, _IPV4, 0, 0))
    await writer.drain()


async def _relay(client: Stream, worker: Stream) -> None:
    """Both ways until both have ended, or either breaks."""
    try:
        async with asyncio.TaskGroup() as ways:
            ways.create_task(_copy(client[0], worker[1]))
            ways.create_task(_copy(worker[0], client[1]))
    except* OSError:
        pass  # one side has gone: so does the other
    finally:
        worker[1].transport.abort()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK_BYTES):
        target.write(data)
        await target.drain()
    with contextlib.suppress(OSError):
        target.write_eof()
