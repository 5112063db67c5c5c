"""Logging in to the workers of whatever node, for as long as a supervisor lives.

Unlike `doors`, it holds no node: nodes come and go, and what is shared on the way stays.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tpuctl.api.ssh import dialers, known_hosts, os_login
from tpuctl.api.ssh.keys import Access
from tpuctl.api.ssh.known_hosts import WorkerIdentity
from tpuctl.api.ssh.login import open_shell
from tpuctl.api.ssh.routes import Route, route_to
from tpuctl.api.ssh.worker_shell import Shell
from tpuctl.errors import (
    PermissionDeniedError,
    PreconditionError,
    RefusedError,
    TransientError,
    UsageError,
)
from tpuctl.models.node import Node, Worker

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi

NODE_INDEPENDENT = (dialers.DIRECT, dialers.INTERNAL, dialers.SOCKS5, dialers.JUMP)
"""The kinds of dialers that need to know nothing of the node; a jump host is shared by all."""

NodeKey = tuple[str, str, int]
"""Zone, name and number."""


class SupervisorLogin:
    """The way of a context, and who we are on its workers."""

    def __init__(self, api: "TpuApi", access: Access) -> None:
        self._api = api
        self._access = access
        self._admitted: Access | None = None
        self._ways: dict[NodeKey | None, Route] = {}
        self._turns: defaultdict[NodeKey | None, asyncio.Lock] = defaultdict(asyncio.Lock)
        """A node that is slow to answer keeps nobody from the others."""
        self._admitting = asyncio.Lock()

    async def open(self, worker: Worker, host_key: str | None, node: Node) -> Shell:
        """Log in to a worker of a node, whatever number it has in its gang.

        Raises TransientError, RefusedError: what is refused now may be granted later.
        """
        try:
            access = await self._access_to(node)
            way = await self._way_to(node, worker)
            return await open_shell(worker, access, host_key=host_key, way=way.dial)
        except (PermissionDeniedError, PreconditionError, UsageError) as error:
            raise RefusedError(str(error), hint=error.hint) from error

    async def _access_to(self, node: Node) -> Access:
        if not os_login.is_on(node.metadata):
            return self._access
        async with self._admitting:  # once for all workers
            if self._admitted is None:
                self._admitted = await asyncio.to_thread(os_login.with_os_login, self._access)
            return self._admitted

    async def _way_to(self, node: Node, worker: Worker) -> Route:
        kind = dialers.parse_dialer(self._access.dialer).kind
        key = None if kind in NODE_INDEPENDENT else (node.zone, node.name, node.node_id)
        async with self._turns[key]:
            if key not in self._ways:
                known = {} if key is None else await self._known(node, worker)
                self._ways[key] = route_to(self._access, node, known)
            return self._ways[key]

    async def _known(self, node: Node, worker: Worker) -> Mapping[int, WorkerIdentity]:
        """Who the workers of a node are, by their numbers in the gang."""
        directory = self._access.known_hosts
        found = await asyncio.to_thread(known_hosts.identities, self._api, node, directory)
        silent = [each.worker_id for each in node.workers if not _instance(found, each)]
        if silent:
            raise TransientError(
                f"worker {silent[0]} of {node.name} has not told the name of its VM yet"
            )
        here = next(each for each in node.workers if each.ip_address == worker.ip_address)
        first = worker.worker_id - here.worker_id
        return {number + first: identity for number, identity in found.items()}


def _instance(found: Mapping[int, WorkerIdentity], worker: Worker) -> str:
    identity = found.get(worker.worker_id)
    return identity.instance if identity else ""
