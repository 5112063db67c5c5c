"""Connections to ports of workers, by the way that the context's dialer leaves open.

Some dialers lead into the network of the workers: by internal addresses, a SOCKS5 proxy or a jump
host. The others, by external addresses and through IAP, meet a firewall that lets SSH in and little
else: there a port is reached through one SSH connection to its worker. So it is where the network
inside says that there is no way to the port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Self

from tpuctl.api.ssh import dialers
from tpuctl.errors import TpuctlError, TransientError
from tpuctl.models.node import Worker

if TYPE_CHECKING:
    import socket

    from tpuctl.api.ssh.keys import Access
    from tpuctl.api.ssh.routes import Route
    from tpuctl.api.ssh.tunnels import WorkerTunnels
    from tpuctl.api.ssh.worker_shell import Shell
    from tpuctl.models.inference.service_record import ReplicaAddress

INSIDE = (dialers.INTERNAL, dialers.SOCKS5, dialers.JUMP)
"""The kinds of dialers that lead into the network of the workers."""
LOGIN_PAUSE_S = 5.0
"""After a login that failed, the next one begins no earlier."""

LogIn = Callable[[], "Awaitable[Shell]"]
"""Logs in to the worker of an address."""


class WorkerPorts:
    """Connects to ports of workers; an async context manager."""

    def __init__(self, access: Access) -> None:
        """Connect as `access` says; nothing is opened yet. Raises UsageError."""
        self._access = access
        self._kind = dialers.parse_dialer(access.dialer).kind
        self._route: Route | None = None
        self._tunnels: dict[ReplicaAddress, asyncio.Task[WorkerTunnels]] = {}
        self._ended_s: dict[ReplicaAddress, float] = {}
        """When the last login to a worker ended."""
        self._closed: set[ReplicaAddress] = set()
        """Ports to which there is no way inside, and one through SSH."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        for task in self._tunnels.values():
            task.cancel()
        for opened in await asyncio.gather(*self._tunnels.values(), return_exceptions=True):
            if not isinstance(opened, BaseException):
                opened.close()
        if self._route is not None:
            await self._route.close()

    async def dial(self, address: ReplicaAddress, log_in: LogIn) -> socket.socket:
        """A connection to a port; `log_in` opens the SSH connection where one is needed.

        Raises OSError, TpuctlError, and what `log_in` raises.
        """
        if self._kind not in INSIDE or address in self._closed:
            return await self._dial_through_ssh(address, log_in)
        try:
            return await self._inside_route().dial(_worker_of(address), address.port)
        except TransientError as error:
            if isinstance(error.__cause__, (ConnectionRefusedError, TimeoutError)):
                raise
            connected = await self._dial_through_ssh(address, log_in)
            self._closed.add(address)
            return connected

    async def _dial_through_ssh(self, address: ReplicaAddress, log_in: LogIn) -> socket.socket:
        from tpuctl.api.ssh.stream_socket import socket_of

        tunnels = await self._tunnels_to(address, log_in)
        stream = await tunnels.dial(address.port)
        return socket_of(stream.read, stream.write, stream.close)

    def _inside_route(self) -> Route:
        if self._route is None:
            from tpuctl.api.ssh.routes import shared_route

            self._route = shared_route(self._access)
        return self._route

    async def _tunnels_to(self, address: ReplicaAddress, log_in: LogIn) -> WorkerTunnels:
        """The SSH connection to a worker, which all connections share; made again when it is lost.

        A login takes longer than a request waits for a connection: it goes on without it.
        """
        task = self._tunnels.get(address)
        if task is None or (task.done() and _is_lost(task) and self._may_log_in(address)):
            self._forget_lost()
            task = self._tunnels[address] = asyncio.create_task(self._open(address, log_in))
        return await asyncio.shield(task)

    def _forget_lost(self) -> None:
        """Forget the connections to workers that are gone; a login that failed is remembered."""
        for address, task in list(self._tunnels.items()):
            if task.done() and _is_lost(task) and self._may_log_in(address):
                del self._tunnels[address]
                self._ended_s.pop(address, None)
                self._closed.discard(address)

    def _may_log_in(self, address: ReplicaAddress) -> bool:
        ended_s = self._ended_s.get(address, 0.0)
        return asyncio.get_running_loop().time() - ended_s >= LOGIN_PAUSE_S

    async def _open(self, address: ReplicaAddress, log_in: LogIn) -> WorkerTunnels:
        from tpuctl.api.ssh.tunnels import WorkerTunnels

        try:
            return WorkerTunnels(await log_in())
        finally:
            self._ended_s[address] = asyncio.get_running_loop().time()


def _worker_of(address: ReplicaAddress) -> Worker:
    return Worker(address.worker_id, address.ip_address, address.external_ip)


def _is_lost(task: asyncio.Task[WorkerTunnels]) -> bool:
    """Whether a login failed, or its connection has ended."""
    if task.cancelled():
        return True
    error = task.exception()
    if error is not None:
        if not isinstance(error, (OSError, TpuctlError)):
            raise error
        return True
    return task.result().is_closed
