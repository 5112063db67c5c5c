"""How a worker is reached: its own address, directly or through a SOCKS5 proxy."""

import asyncio
import ipaddress
import socket
import struct
from urllib.parse import urlsplit

from tpuctl.errors import TransientError, UsageError
from tpuctl.models.node import Worker

SSH_PORT = 22
CONNECT_S = 10.0
NO_PROXY = ("direct", "internal")
_REFUSALS = {
    1: "general failure",
    2: "not allowed",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
}


async def dial(dialer: str, worker: Worker, port: int = SSH_PORT) -> socket.socket:
    """A connected TCP socket to a port of a worker; raises TransientError, UsageError."""
    address = worker.ip_address
    if dialer == "direct":
        address = worker.external_ip or worker.ip_address
    try:
        async with asyncio.timeout(CONNECT_S):
            proxy = proxy_of(dialer)
            if proxy is None:
                return await _connect(address, port)
            return await _through_socks5(*proxy, address, port)
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer within {CONNECT_S:.0f} s"
        raise TransientError(f"cannot reach {address}:{port}: {reason}") from error


def proxy_of(dialer: str) -> tuple[str, int] | None:
    """Host and port of its SOCKS5 proxy, None where it needs none; raises UsageError."""
    if dialer in NO_PROXY:
        return None
    try:
        proxy = urlsplit(dialer)
        if proxy.scheme == "socks5" and proxy.hostname and proxy.port:
            return proxy.hostname, proxy.port
    except ValueError:  # a port that is none
        pass
    hint = "use direct, internal or socks5://HOST:PORT"
    raise UsageError(f"unknown dialer {dialer!r}", hint=hint)


async def _connect(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.setblocking(False)  # noqa: FBT003
    try:
        await asyncio.get_running_loop().sock_connect(connection, (host, port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        connection.close()
        raise
    return connection


async def _through_socks5(host: str, port: int, target: str, target_port: int) -> socket.socket:
    """RFC 1928, without authentication, CONNECT to an IPv4 address."""
    connection = await _connect(host, port)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(connection, b"\x05\x01\x00")
        if await _receive(connection, 2) != b"\x05\x00":
            raise OSError("the proxy asks for authentication")
        packed = ipaddress.IPv4Address(target).packed
        await loop.sock_sendall(
            connection, b"\x05\x01\x00\x01" + packed + struct.pack("!H", target_port)
        )
        status = (await _receive(connection, 10))[1]
        if status:
            raise OSError(_REFUSALS.get(status, f"refused by the proxy ({status})"))
    except BaseException:
        connection.close()
        raise
    return connection


async def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = await asyncio.get_running_loop().sock_recv(connection, count - len(data))
        if not part:
            raise OSError("the proxy closed the connection")
        data += part
    return data
