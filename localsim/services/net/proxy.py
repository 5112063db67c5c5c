"""The HTTP proxy for package installation (RFC 9110, CONNECT): the only way out of the VPC.

To port 443 of public addresses alone. A name is resolved once, here, and the connection goes to
the address that was checked: no name can lead to loopback or to a private network.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

from localsim.services.net.acceptor import Acceptor
from localsim.services.net.relay import relay_bytes

PORT = 3128
MAX_CONNECTIONS = 256
REQUEST_S = 10.0
CONNECT_S = 20.0
_PORT_OUT = 443
_LONGEST_REQUEST = 8192
_LONGEST_REASON = 200
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All that is given out of IPv6: what embeds IPv4 addresses, but for two ways, is outside."""

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a name; raises OSError."""
Connect = Callable[[str, int], Awaitable[socket.socket]]
"""A non-blocking socket connected to an address and port; raises OSError."""


class _ProxyRefusedError(Exception):
    """A request that the proxy refuses, with its HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Proxy(Acceptor):
    """The proxy and its connections."""

    def __init__(self, resolve: Resolve, connect: Connect, *, most: int = MAX_CONNECTIONS) -> None:
        """`most` connections are served at a time."""
        self._resolve = resolve
        self._connect = connect
        self._most = most
        self._served = 0
        super().__init__(self._serve_client)

    async def _serve_client(self, client: socket.socket) -> None:
        self._served += 1
        try:
            with client:
                server = await self._connect_client(client)
                if server is not None:
                    await relay_bytes(client, server)
        finally:
            self._served -= 1

    async def _connect_client(self, client: socket.socket) -> socket.socket | None:
        """Connect as the client asks, tell the client, and return the connection."""
        try:
            async with asyncio.timeout(REQUEST_S):
                line, early = await _request(client)
            server = await self._reach(line)
        except _ProxyRefusedError as refused:
            with contextlib.suppress(OSError):
                await _answer(client, refused.status, str(refused))
            return None
        except (OSError, TimeoutError):
            return None  # gone, or too slow to be served
        try:
            await _answer(client, 200, "Connection established")
            await asyncio.get_running_loop().sock_sendall(server, early)
        except BaseException as error:
            server.close()
            if isinstance(error, OSError):
                return None
            raise
        return server

    async def _reach(self, line: str) -> socket.socket:
        if self._served > self._most:
            raise _ProxyRefusedError(503, f"the proxy serves {self._most} connections already")
        host = _host(line)
        try:
            addresses = await self._resolve(host)
        except (OSError, ValueError) as error:  # ValueError: no name can be written so
            raise _ProxyRefusedError(502, f"{host} has no address: {error}") from None
        allowed = [address for address in addresses if is_public(address)]
        if not allowed:
            raise _ProxyRefusedError(
                403, f"{host} is not a public address: the proxy leads nowhere else"
            )
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._connect_any(allowed)
        except (OSError, TimeoutError) as error:
            raise _ProxyRefusedError(502, f"{host} cannot be reached: {error}") from None

    async def _connect_any(self, addresses: Sequence[str]) -> socket.socket:
        """Connect to the first address that answers; raises the last one's OSError."""
        *others, last = addresses
        for address in others:
            with contextlib.suppress(OSError):
                return await self._connect(address, _PORT_OUT)
        return await self._connect(last, _PORT_OUT)


def is_public(address: str) -> bool:
    """Whether an address is on the open internet, and not this machine's or a private one."""
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address) and (
        parsed not in _UNICAST or parsed.sixtofour or parsed.teredo
    ):
        return False
    return parsed.is_global and not (
        parsed.is_multicast or parsed.is_reserved or parsed.is_link_local or parsed.is_unspecified
    )


async def resolve(host: str) -> Sequence[str]:
    """The addresses of a name, as this machine resolves it; raises OSError."""
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, _PORT_OUT, type=socket.SOCK_STREAM)
    return [str(answer[4][0]) for answer in answers]


async def connect(address: str, port: int) -> socket.socket:
    """A non-blocking socket connected over this machine's network; raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family)
    connection.setblocking(False)  # noqa: FBT003
    try:
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
    except BaseException:
        connection.close()
        raise
    return connection


async def _request(client: socket.socket) -> tuple[str, bytes]:
    """The request line, and the bytes that came after the request; raises _ProxyRefusedError."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > _LONGEST_REQUEST:
            raise _ProxyRefusedError(400, "the request is too long")
        part = await asyncio.get_running_loop().sock_recv(client, _LONGEST_REQUEST)
        if not part:
            raise ConnectionResetError
        data += part
    head, _, early = data.partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0].decode("latin-1"), early


def _host(line: str) -> str:
    """The name or address in a request line; raises _ProxyRefusedError."""
    match line.split(" "):
        case ["CONNECT", target, version] if version.startswith("HTTP/1."):
            host, _, port = target.rpartition(":")
        case [_, _, version] if version.startswith("HTTP/"):
            raise _ProxyRefusedError(405, "the proxy serves CONNECT alone")
        case _:
            raise _ProxyRefusedError(400, "this is not a request")
    if port != str(_PORT_OUT):
        raise _ProxyRefusedError(403, f"the proxy connects to port {_PORT_OUT} alone")
    host = host.removeprefix("[").removesuffix("]")
    if not host or "%" in host:
        raise _ProxyRefusedError(400, "the request does not name a host")
    return host


async def _answer(client: socket.socket, status: int, reason: str) -> None:
    """A reply with the reason in the status line, which is all that clients show of it."""
    words = "".join(each if each.isascii() and each.isprintable() else "?" for each in reason)
    head = f"HTTP/1.1 {status} {words[:_LONGEST_REASON]}\r\n"
    if status != 200:
        head += "Content-Length: 0\r\nConnection: close\r\n"
    await asyncio.get_running_loop().sock_sendall(client, f"{head}\r\n".encode())
