"""HTTP connections to replicas, over sockets that a dialer makes.

A connection that an engine closes while it is idle must not fail a request that may not be sent
twice. So an idle one is used again for a short time only, shorter than engines keep theirs, and
only when its socket has nothing to read at that moment: neither data nor the end.
"""

import asyncio
import errno
import select
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler

from tpuctl.errors import TpuctlError
from tpuctl.models.inference.service_record import ReplicaAddress
from tpuctl.network_policy import (
    PROXY_IDLE_CONNECTION_S,
    PROXY_KEEPALIVE_COUNT,
    PROXY_KEEPALIVE_S,
)
from tpuctl.proxy.proxy_limits import ProxyLimits

if TYPE_CHECKING:
    from aiohttp import ClientRequest

Dial = Callable[[ReplicaAddress], Awaitable[socket.socket]]
"""Connects to a replica; raises OSError or TpuctlError."""
READ_BYTES = 64 * 1024
LINE_BYTES, HEADER_BYTES, HEADERS = 16 * 1024, 32 * 1024, 256
"""Of what is longer, or of more headers, neither side's message is taken."""
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
PASSED_AS_THEY_ARE = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class UnreachableError(Exception):
    """No connection to a replica was made: nothing of the request was sent."""


class ExhaustedError(Exception):
    """This machine has no more sockets: no replica is to blame."""


class ReplicaConnection(ResponseHandler):
    """A connection that looks at its socket before it is used again."""

    _loss: OSError | None = None

    def break_off(self, why: str) -> None:
        """End the connection as if it were lost."""
        self._loss = ConnectionResetError(errno.ECONNRESET, why)
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Fail what was being read: a body without a length would otherwise look complete."""
        error = exc or self._loss
        if error is not None and self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(aiohttp.ClientPayloadError(_text_of(error)))
        super().connection_lost(error)

    def is_connected(self) -> bool:
        """Whether requests can be sent: the other end has neither closed nor sent anything."""
        if not super().is_connected():
            return False
        return self.transport is None or not has_input(self.transport)


def has_input(transport: asyncio.Transport) -> bool:
    """Whether something, or the end, can be read of the socket of a transport now."""
    descriptor = transport.get_extra_info("socket").fileno()
    if descriptor < 0:
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def keep_alive(connected: socket.socket) -> None:
    """Let the system break a connection whose other end is gone, as of a machine that was lost.

    It says nothing of an engine that only takes its time: what answers is the machine.
    """
    if connected.family not in (socket.AF_INET, socket.AF_INET6):
        return  # through SSH, which looks after its own connection
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle = "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"  # macOS
    for option, value in (
        (idle, PROXY_KEEPALIVE_S),
        ("TCP_KEEPINTVL", PROXY_KEEPALIVE_S),
        ("TCP_KEEPCNT", PROXY_KEEPALIVE_COUNT),
    ):
        connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class ReplicaConnector(aiohttp.BaseConnector):
    """Connects to the addresses that stand behind the made-up hosts of URLs."""

    def __init__(self, dial: Dial, limits: ProxyLimits, *, reuses: bool) -> None:
        if reuses:
            super().__init__(limit=0, keepalive_timeout=PROXY_IDLE_CONNECTION_S)
        else:
            super().__init__(limit=0, force_close=True)
        self._dial = dial
        self._connect_s = limits.connect_s
        self.addresses: dict[str, ReplicaAddress] = {}
        self.connections: dict[ReplicaAddress, WeakSet[ReplicaConnection]] = {}

    async def _create_connection(self, req: "ClientRequest", *_others: object) -> ResponseHandler:
        """Connect; raises UnreachableError, ExhaustedError."""
        address = self.addresses[req.url.raw_host or ""]
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_s):
                connected = await self._dial(address)
        except TimeoutError:
            raise UnreachableError(f"no connection within {self._connect_s:g} s") from None
        except (OSError, TpuctlError) as error:
            if is_exhausted(error):
                raise ExhaustedError(_text_of(error)) from error
            raise UnreachableError(_text_of(error)) from error
        keep_alive(connected)
        try:
            _, connection = await loop.create_connection(
                lambda: ReplicaConnection(loop), sock=connected
            )
            self.connections.setdefault(address, WeakSet()).add(connection)
        except OSError as error:
            connected.close()
            raise UnreachableError(_text_of(error)) from error
        except BaseException:
            connected.close()
            raise
        return connection


class ReplicaSession:
    """Sends requests to replicas, each by its address."""

    def __init__(self, dial: Dial, limits: ProxyLimits, *, reuses: bool = True) -> None:
        """Open nothing yet; to be made where an event loop runs.

        `reuses`: a connection carries one request after the other; otherwise each has its own.
        """
        self._connector = ReplicaConnector(dial, limits, reuses=reuses)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_read=limits.silence_s),
            skip_auto_headers=PASSED_AS_THEY_ARE,
            read_bufsize=READ_BYTES,
            max_line_size=LINE_BYTES,
            max_field_size=HEADER_BYTES,
            max_headers=HEADERS,
        )
        # Whether a request is sent again is decided in one place, which knows all replicas.
        self._session._retry_connection = False  # noqa: SLF001
        self.request = self._session.request
        self._hosts: dict[ReplicaAddress, str] = {}

    def origin(self, address: ReplicaAddress) -> str:
        """The beginning of the URLs of a replica; its host is known to this session alone."""
        if (host := self._hosts.get(address)) is None:
            host = self._hosts[address] = f"replica-{len(self._hosts)}"
            self._connector.addresses[host] = address
        return f"http://{host}:{address.port}"

    def break_off(self, address: ReplicaAddress, why: str) -> None:
        """End every connection to a replica as if it were lost; requests on them fail."""
        for each in list(self._connector.connections.pop(address, ())):
            each.break_off(why)

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()


def is_exhausted(error: BaseException) -> bool:
    """Whether this machine has no more sockets."""
    return any(getattr(each, "errno", None) in EXHAUSTED for each in (error, error.__cause__))


def _text_of(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
