"""Connections of a proxy to the engines of replicas, with the logins of whoever runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Self

from tpuctl.api.ssh.worker_ports import WorkerPorts
from tpuctl.errors import NotFoundError
from tpuctl.models.inference.service_record import ReplicaAddress
from tpuctl.operations.workers import access as worker_access

if TYPE_CHECKING:
    import socket

    from tpuctl.api.ssh.keys import Access
    from tpuctl.api.ssh.worker_connections import WorkerConnections
    from tpuctl.api.ssh.worker_shell import Shell
    from tpuctl.api.tpu.tpu import TpuApi


class ReplicaDialer:
    """Connects to engines on workers; an async context manager."""

    def __init__(self, api: TpuApi, access: Access, sleep: Callable[[float], None]) -> None:
        """Connect as `access` says; nothing is opened yet. Raises UsageError."""
        self._api = api
        self._access = access
        self._sleep = sleep
        self._ports = WorkerPorts(access)
        self._connections: WorkerConnections | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._ports.__aexit__()
        if self._connections is not None:
            await self._connections.__aexit__(None, None, None)

    async def dial(self, address: ReplicaAddress) -> socket.socket:
        """A connection to the engine of a replica; raises OSError, TpuctlError."""
        return await self._ports.dial(address, partial(self._log_in, address))

    async def _log_in(self, address: ReplicaAddress) -> Shell:
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
        return await self._connections.open(node, worker)
