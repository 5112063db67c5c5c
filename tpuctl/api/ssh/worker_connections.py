"""Connections to the workers of nodes: who the workers are, and the route to them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from tpuctl.api.ssh import dialers, known_hosts, os_login
from tpuctl.api.ssh.keys import Access, with_key
from tpuctl.api.ssh.known_hosts import WorkerIdentity
from tpuctl.api.ssh.login import UnknownHostKeyError, open_shell, open_shell_with_retry
from tpuctl.api.ssh.routes import Route, route_to
from tpuctl.errors import (
    PermissionDeniedError,
    PreconditionError,
    RefusedError,
    TpuctlError,
    TransientError,
    UsageError,
)

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.models.node import Node, Worker

FRESH_S = 300.0
"""A node younger than that may not have read its `ssh-keys` metadata yet."""
NODE_INDEPENDENT = (dialers.DIRECT, dialers.INTERNAL, dialers.SOCKS5, dialers.JUMP)
"""The kinds of dialers that need to know nothing of the node; a jump host is shared by all."""

NodeKey = tuple[str, str, int]
"""Zone, name and number: a node made again under its name is another one."""


class WorkerConnections:
    """Logs in to workers of any nodes; an async context manager.

    What is on the way, such as a jump host, is shared by all connections and ends with it.
    """

    def __init__(self, api: TpuApi, access: Access) -> None:
        """Connect as `access` says; nothing is opened yet."""
        self._api = api
        self._access = access
        self._admitted: Access | None = None
        self._admitting = asyncio.Lock()
        self._identities: dict[NodeKey, dict[int, WorkerIdentity]] = {}
        self._host_keys: dict[NodeKey, list[str]] = {}
        self._routes: dict[NodeKey | None, Route] = {}
        self._turns: defaultdict[NodeKey | None, asyncio.Lock] = defaultdict(asyncio.Lock)
        """A node that is slow to answer keeps nobody from the others."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        for route in self._routes.values():
            await route.close()

    async def identify(self, node: Node) -> Mapping[int, WorkerIdentity]:
        """Who the workers of a node are, as first seen; what is learned now is kept on disk.

        Raises DamagedStateError, LocalIOError, and what the API raises.
        """
        key = _key_of(node)
        async with self._turns[key]:
            if key not in self._identities:
                self._identities[key] = await asyncio.to_thread(
                    known_hosts.identities, self._api, node, self._access.known_hosts
                )
            return self._identities[key]

    async def open(self, node: Node, worker: Worker) -> Shell:
        """Log in to a worker that shows the host key by which it was first seen.

        Raises TransientError, RefusedError when it is somebody else, and what `identify` raises.
        """
        known = await self.identify(node)
        key = known_hosts.host_key(known, worker)
        route = self._route(node, known)
        log_in = open_shell_with_retry if self._is_key_new(node) else open_shell
        try:
            return await log_in(worker, self._access, host_key=key, way=route.dial)
        except UnknownHostKeyError as error:
            directory = self._access.known_hosts
            raise known_hosts.changed_key_error(
                directory, node, worker, key, error.shown
            ) from error

    async def open_in_gang(self, node: Node, worker: Worker) -> Shell:
        """Log in to a worker that shows the host key which the control plane reports.

        `worker` has its number in its gang; its address says which one of the node it is. Raises
        TransientError, RefusedError: what is refused now may be granted later.
        """
        host_key = await self._told_host_key(node, worker)
        try:
            access = await self._access_to(node)
            route = await self._gang_route(node, worker)
            return await open_shell(worker, access, host_key=host_key, way=route.dial)
        except (PermissionDeniedError, PreconditionError, UsageError) as error:
            raise RefusedError(str(error), hint=error.hint) from error
        except RefusedError:
            self._host_keys.pop(
                _key_of(node), None
            )  # a worker that was created again has a new key
            raise

    async def _told_host_key(self, node: Node, worker: Worker) -> str:
        key, index = _key_of(node), node.workers.index(_worker_at(node, worker))
        async with self._turns[key]:  # once for all workers
            host_keys = self._host_keys.get(key, [])
            if index >= len(host_keys) or not host_keys[index]:
                try:
                    host_keys = await asyncio.to_thread(self._api.host_keys, node.zone, node.name)
                except TpuctlError as error:
                    raise TransientError(f"host keys of {node.name}: {error}") from error
                self._host_keys[key] = host_keys
        if index >= len(host_keys) or not host_keys[index]:
            raise TransientError(f"worker {worker.worker_id} has not reported its host key yet")
        return host_keys[index]

    async def _access_to(self, node: Node) -> Access:
        if not os_login.is_on(node.metadata):
            return self._access
        async with self._admitting:  # once for all workers
            if self._admitted is None:
                self._admitted = await asyncio.to_thread(os_login.with_os_login, self._access)
            return self._admitted

    async def _gang_route(self, node: Node, worker: Worker) -> Route:
        """The route to a node of a gang, which knows its workers by their numbers in the gang."""
        if self._is_independent or _key_of(node) in self._routes:
            return self._route(node, {})
        known = await self.identify(node)
        told = {number for number, identity in known.items() if identity.instance}
        silent = [each.worker_id for each in node.workers if each.worker_id not in told]
        if silent:
            self._identities.pop(_key_of(node), None)
            raise TransientError(
                f"worker {silent[0]} of {node.name} has not reported the name of its VM yet"
            )
        first = worker.worker_id - _worker_at(node, worker).worker_id
        return self._route(node, {number + first: known[number] for number in known})

    @property
    def _is_independent(self) -> bool:
        return dialers.parse_dialer(self._access.dialer).kind in NODE_INDEPENDENT

    def _route(self, node: Node, known: Mapping[int, WorkerIdentity]) -> Route:
        key = None if self._is_independent else _key_of(node)
        if key not in self._routes:
            self._routes[key] = route_to(self._access, node, known)
        return self._routes[key]

    def _is_key_new(self, node: Node) -> bool:
        if os_login.is_on(node.metadata):
            return True  # its profile had no such key a moment ago, or so it may be
        was_added_just_now = with_key(dict(node.metadata), self._access) is not None
        return was_added_just_now or time.time() - node.created_s < FRESH_S


def _key_of(node: Node) -> NodeKey:
    return node.zone, node.name, node.node_id


def _worker_at(node: Node, worker: Worker) -> Worker:
    return next(each for each in node.workers if each.ip_address == worker.ip_address)
