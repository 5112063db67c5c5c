"""Connections to the port of a replica's engine, by the way that the context's dialer leaves open.

Some dialers lead into the network of the workers: by internal addresses, a SOCKS5 proxy or a jump
host. The others, by external addresses and through IAP, meet a firewall that lets SSH in and little
else: there the engine's port is reached through one SSH connection to its worker. So it is where
the network inside says that there is no way to the port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from tpuctl.api.ssh import dialers
from tpuctl.errors import NotFoundError, TpuctlError, TransientError
from tpuctl.models.inference.service_record import ReplicaAddress
from tpuctl.models.node import Worker
from tpuctl.operations.workers import access as worker_access

if TYPE_CHECKING:
    import socket

    from tpuctl.api.ssh.keys import Access
    from tpuctl.api.ssh.routes import Route
    from tpuctl.api.ssh.tunnels import WorkerTunnels
    from tpuctl.api.ssh.worker_connections import WorkerConnections
    from tpuctl.api.tpu.tpu import TpuApi

INSIDE = (dialers.INTERNAL, dialers.SOCKS5, dialers.JUMP)
"""The kinds of dialers that lead into the network of the workers."""
LOGIN_PAUSE_S = 5.0
"""After a login that failed, the next one begins no earlier."""


class ReplicaDialer:
    """Connects to engines on workers; an async context manager."""

    def __init__(self, api: TpuApi, access: Access, sleep: Callable[[float], None]) -> None:
        """Connect as `access` says; nothing is opened yet. Raises UsageError."""
        self._api = api
        self._access = access
        self._sleep = sleep
        self._kind = dialers.parse_dialer(access.dialer).kind
        self._route: Route | None = None
        self._connections: WorkerConnections | None = None
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
        if self._connections is not None:
            await self._connections.__aexit__(None, None, None)
        if self._route is not None:
            await self._route.close()

    async def dial(self, address: ReplicaAddress) -> socket.socket:
        """A connection to the engine of a replica; raises OSError, TpuctlError."""
        if self._kind not in INSIDE or address in self._closed:
            return await self._dial_through_ssh(address)
        try:
            return await self._inside_route().dial(_worker_of(address), address.port)
        except TransientError as error:
            if isinstance(error.__cause__, (ConnectionRefusedError, TimeoutError)):
                raise
            connected = await self._dial_through_ssh(address)
            self._closed.add(address)
            return connected

    async def _dial_through_ssh(self, address: ReplicaAddress) -> socket.socket:
        from tpuctl.api.ssh.stream_socket import socket_of

        tunnels = await self._tunnels_to(address)
        stream = await tunnels.dial(address.port)
        return socket_of(stream.read, stream.write, stream.close)

    def _inside_route(self) -> Route:
        if self._route is None:
            from tpuctl.api.ssh.routes import shared_route

            self._route = shared_route(self._access)
        return self._route

    async def _tunnels_to(self, address: ReplicaAddress) -> WorkerTunnels:
        """The SSH connection to a worker, which all requests share; made again when it is lost.

        A login takes longer than a request waits for a connection: it goes on without it.
        """
        task = self._tunnels.get(address)
        if task is None or (task.done() and _is_lost(task) and self._may_log_in(address)):
            task = self._tunnels[address] = asyncio.create_task(self._log_in(address))
        return await asyncio.shield(task)

    def _may_log_in(self, address: ReplicaAddress) -> bool:
        ended_s = self._ended_s.get(address, 0.0)
        return asyncio.get_running_loop().time() - ended_s >= LOGIN_PAUSE_S

    async def _log_in(self, address: ReplicaAddress) -> WorkerTunnels:
        try:
            return await self._open_tunnels(address)
        finally:
            self._ended_s[address] = asyncio.get_running_loop().time()

    async def _open_tunnels(self, address: ReplicaAddress) -> WorkerTunnels:
        from tpuctl.api.ssh.tunnels import WorkerTunnels
        from tpuctl.api.ssh.worker_connections import WorkerConnections

        node, ours = await asyncio.to_thread(
            worker_access.accessible_node,
            self._api, self._access, address.zone, address.node, self._sleep,
        )  # fmt: skip
        worker = next(
            (each for each in node.workers if each.ip_address == address.ip_address), None
        )
        if worker is None:
            raise NotFoundError(f"node {node.name!r} has no worker at {address.ip_address}")
        if self._connections is None:
            self._connections = WorkerConnections(self._api, ours)
        return WorkerTunnels(await self._connections.open(node, worker))


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
