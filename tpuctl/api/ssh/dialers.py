"""TCP connections to workers by their addresses, directly or through a SOCKS5 proxy."""

import asyncio
import ipaddress
import socket
import struct
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from tpuctl.errors import TransientError, UsageError
from tpuctl.models.node import Worker
from tpuctl.network_policy import CONNECT_S

SSH_PORT = 22
DIRECT, INTERNAL, IAP = "direct", "internal", "iap"
SOCKS5, JUMP = "socks5", "jump"
SCHEMES = {SOCKS5: SOCKS5, JUMP: JUMP, "ssh": JUMP}
FORMS = "direct, internal, iap, socks5://HOST:PORT or jump://[USER@]HOST[:PORT]"
_REFUSED = 5
_REFUSALS = {
    1: "general failure",
    2: "not allowed",
    3: "network unreachable",
    4: "host unreachable",
    _REFUSED: "connection refused",
}


@dataclass(frozen=True, slots=True)
class Dialer:
    """How workers are reached: the kind, and the host, port and user of a proxy or jump host."""

    kind: str
    host: str = ""
    port: int = 0
    user: str | None = None


def parse_dialer(text: str) -> Dialer:
    """The dialer that the text of a context names; raises UsageError."""
    if text in (DIRECT, INTERNAL, IAP):
        return Dialer(text)
    try:
        found = urlsplit(text)
        kind = SCHEMES.get(found.scheme)
        port = found.port or (SSH_PORT if kind == JUMP else 0)
        if kind and found.hostname and port and _is_bare(found, kind):
            return Dialer(kind, found.hostname, port, found.username)
    except ValueError:  # a port that is none
        pass
    raise UsageError(f"unknown dialer {text!r}", hint=f"use {FORMS}")


def _is_bare(found: SplitResult, kind: str) -> bool:
    """Whether a URL has no path and no password, and a user only for a jump host."""
    rest = found.path.rstrip("/") or found.query or found.fragment or found.password
    return not rest and (kind == JUMP or found.username is None)


async def dial(dialer: Dialer, worker: Worker, port: int = SSH_PORT) -> socket.socket:
    """A TCP connection to a port of a worker, by its address; raises TransientError."""
    address = worker.ip_address
    if dialer.kind == DIRECT:
        address = worker.external_ip or worker.ip_address
    try:
        async with asyncio.timeout(CONNECT_S):
            if dialer.kind == SOCKS5:
                return await _through_socks5(dialer.host, dialer.port, address, port)
            return await _connect(address, port)
    except (OSError, TimeoutError) as error:
        raise unreachable_error(worker, f"{address}:{port}", error) from error


def unreachable_error(worker: Worker, place: str, error: Exception) -> TransientError:
    """The error for a worker that cannot be reached at `place`."""
    reason = str(error) or f"no answer within {CONNECT_S:.0f} s"
    return TransientError(f"worker {worker.worker_id}: cannot reach {place}: {reason}")


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
    """Connect to an IPv4 address through a SOCKS5 proxy without authentication (RFC 1928)."""
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
            kind = ConnectionRefusedError if status == _REFUSED else OSError
            raise kind(_REFUSALS.get(status, f"refused by the proxy ({status})"))
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
