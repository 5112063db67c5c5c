"""The SSH doors of one node's workers: who the workers are, and the way to them."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tpuctl.api.ssh import known_hosts, os_login
from tpuctl.api.ssh.keys import Access, with_key
from tpuctl.api.ssh.known_hosts import WorkerIdentity
from tpuctl.api.ssh.login import UnknownHostKeyError, open_shell, open_shell_with_retry
from tpuctl.api.ssh.routes import Route, route_to
from tpuctl.api.ssh.worker_shell import Shell
from tpuctl.models.node import Node, Worker

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi

FRESH_S = 300.0
"""A node younger than that may not have read its `ssh-keys` metadata yet."""


class WorkerConnections:
    """Opens connections to the workers of one node; an async context manager.

    Its connections share the way to them, which ends with it.
    """

    def __init__(self, api: TpuApi, node: Node, access: Access) -> None:
        self._api = api
        self._node = node
        self._access = access
        self._known: dict[int, WorkerIdentity] = {}
        self._way: Route | None = None

    async def __aenter__(self) -> Self:
        directory = self._access.known_hosts
        self._known = await asyncio.to_thread(
            known_hosts.identities, self._api, self._node, directory
        )
        self._way = route_to(self._access, self._node, self._known)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._way:
            await self._way.close()

    async def open(self, worker: Worker) -> Shell:
        """Log in to a worker; raises TransientError, RefusedError when it is somebody else."""
        key = known_hosts.host_key(self._known, worker)
        log_in = open_shell_with_retry if self._is_key_new() else open_shell
        way = self._way.dial if self._way else None
        try:
            return await log_in(worker, self._access, host_key=key, way=way)
        except UnknownHostKeyError as error:
            directory = self._access.known_hosts
            raise known_hosts.changed_key_error(
                directory, self._node, worker, key, error.shown
            ) from error

    def _is_key_new(self) -> bool:
        if os_login.is_on(self._node.metadata):
            return True  # its profile had no such key a moment ago, or so it may be
        was_added_just_now = with_key(dict(self._node.metadata), self._access) is not None
        return was_added_just_now or time.time() - self._node.created_s < FRESH_S
