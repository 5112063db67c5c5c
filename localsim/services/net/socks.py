"""The VPC's SOCKS5 port (RFC 1928): clients on this machine reach workers by their addresses.

No authentication, CONNECT only, and nothing but workers behind it. A client of a worker's SSH port
is handed to the worker's SSH server as it is: no bytes are carried twice.
"""

import asyncio
import contextlib
import errno
import ipaddress
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Protocol
from weakref import WeakSet

from localsim import loopback
from localsim.services.net.acceptor import Acceptor
from localsim.services.net.relay import relay_bytes
from localsim.workers.ssh_endpoint import SshBehaviour, SshEndpoint

HANDSHAKE_S = 10.0
CONNECT_S = 10.0
_SSH_PORT = 22
_VPC = ipaddress.ip_network("10.0.0.0/8")
_VERSION = 5
_NO_AUTHENTICATION = 0
_NO_ACCEPTABLE_METHOD = 0xFF
_CONNECT = 1
_IPV4, _DOMAIN = 1, 3

GRANTED = 0
NOT_ALLOWED = 2
NETWORK_UNREACHABLE = 3
HOST_UNREACHABLE = 4
CONNECTION_REFUSED = 5
COMMAND_NOT_SUPPORTED = 7
ADDRESS_TYPE_NOT_SUPPORTED = 8


class WorkerDialer(Protocol):
    """Connects to workers on behalf of the SOCKS port."""

    def ssh_endpoint(self, address: str, port: int) -> SshEndpoint | None:
        """The SSH server at a worker's own address and port; None where there is none."""

    async def dial(self, address: str, port: int) -> socket.socket:
        """A non-blocking socket connected to a worker from the VPC; raises OSError."""


class _SocksRefusedError(Exception):
    def __init__(self, reply: int) -> None:
        super().__init__(reply)
        self.reply = reply


class SocksServer(Acceptor):
    """The SOCKS server and its connections; those of SSH outlive it."""

    def __init__(
        self, workers: WorkerDialer, *, handshake_s: float, is_cut_off: Callable[[], bool]
    ) -> None:
        self._workers = workers
        self._handshake_s = handshake_s
        self._is_cut_off = is_cut_off
        self._adopted: WeakSet[socket.socket] = WeakSet()
        """The clients that SSH servers of workers have been given."""
        self.port = 0
        super().__init__(self._serve_client)

    def open(self, listening: socket.socket) -> None:
        """Accept connections on this socket too."""
        self.port = listening.getsockname()[1]
        super().open(listening)

    async def cut_clients(self) -> int:
        """Break the connections to workers, those of SSH too, and return how many."""
        cut = await self.break_connections()
        adopted, self._adopted = list(self._adopted), WeakSet()
        for client in adopted:
            with contextlib.suppress(OSError):  # it has ended
                client.shutdown(socket.SHUT_RDWR)
                cut += 1
        return cut

    async def _serve_client(self, client: socket.socket) -> None:
        try:
            worker = await self._handshake(client)
        except (OSError, EOFError, TimeoutError):
            # Gone, or no client of this protocol, or too slow to be served. The last reply arrives
            # only when everything has been read: unread bytes would make the end a reset.
            with client, contextlib.suppress(OSError):
                client.recv(4096)
        except BaseException:
            client.close()
            raise
        else:
            if isinstance(worker, socket.socket):
                await relay_bytes(client, worker)
            else:
                self._adopted.add(client)
                await worker.adopt(client)

    async def _handshake(self, client: socket.socket) -> SshEndpoint | socket.socket:
        """Read greeting and request, and reply; raises OSError, EOFError."""
        try:
            async with asyncio.timeout(self._handshake_s):
                address, port = await _greet(client)
            worker = await self._connect(address, port)
        except _SocksRefusedError as refused:
            await _reply(client, refused.reply)
            raise EOFError from None
        try:
            await _reply(client, GRANTED)
        except BaseException:
            if isinstance(worker, socket.socket):
                worker.close()
            raise
        return worker

    async def _connect(self, address: str, port: int) -> SshEndpoint | socket.socket:
        """Hand the client to the worker's SSH server, or connect to another port."""
        try:
            inside = ipaddress.ip_address(address) in _VPC
        except ValueError:  # a name, and there is no name server
            raise _SocksRefusedError(HOST_UNREACHABLE) from None
        if self._is_cut_off():
            raise _SocksRefusedError(NETWORK_UNREACHABLE)
        endpoint = self._workers.ssh_endpoint(address, _SSH_PORT)
        if endpoint is None:
            raise _SocksRefusedError(HOST_UNREACHABLE if inside else NOT_ALLOWED)
        if endpoint.behaviour is SshBehaviour.UNREACHABLE:
            raise _SocksRefusedError(HOST_UNREACHABLE)
        if port == _SSH_PORT:
            return endpoint
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._workers.dial(address, port)
        except OSError as error:
            is_refused = error.errno == errno.ECONNREFUSED
            raise _SocksRefusedError(
                CONNECTION_REFUSED if is_refused else HOST_UNREACHABLE
            ) from None


async def serve_socks(
    workers: WorkerDialer,
    listening: Iterable[socket.socket] = (),
    *,
    handshake_s: float = HANDSHAKE_S,
    is_cut_off: Callable[[], bool] = lambda: False,
) -> SocksServer:
    """Serve SOCKS5 in front of workers on these sockets, by default on a free port.

    While `is_cut_off` says so, new connections are refused.
    """
    server = SocksServer(workers, handshake_s=handshake_s, is_cut_off=is_cut_off)
    for each in listening or (loopback.listen(),):
        server.open(each)
    return server


async def _greet(client: socket.socket) -> tuple[str, int]:
    """Read greeting and request; return the address and port that the client asks for."""
    version, count = await _read(client, 2)
    if version != _VERSION:
        raise EOFError
    is_accepted = _NO_AUTHENTICATION in await _read(client, count)
    method = _NO_AUTHENTICATION if is_accepted else _NO_ACCEPTABLE_METHOD
    await _write(client, bytes((_VERSION, method)))
    if not is_accepted:
        raise EOFError
    version, command, _, kind = await _read(client, 4)
    if version != _VERSION:
        raise EOFError
    address = await _address(client, kind)
    (port,) = struct.unpack("!H", await _read(client, 2))
    if command != _CONNECT:
        raise _SocksRefusedError(COMMAND_NOT_SUPPORTED)
    return address, port


async def _address(client: socket.socket, kind: int) -> str:
    if kind == _IPV4:
        return str(ipaddress.IPv4Address(await _read(client, 4)))
    if kind == _DOMAIN:
        (length,) = await _read(client, 1)
        return (await _read(client, length)).decode("ascii", "replace")
    raise _SocksRefusedError(ADDRESS_TYPE_NOT_SUPPORTED)


async def _reply(client: socket.socket, reply: int) -> None:
    await _write(client, struct.pack("!BBBBIH", _VERSION, reply, 0, _IPV4, 0, 0))


async def _read(client: socket.socket, count: int) -> bytes:
    """Read exactly `count` bytes: the next ones are for the server behind. Raises EOFError."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < count:
        part = await loop.sock_recv(client, count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


async def _write(client: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(client, data)
