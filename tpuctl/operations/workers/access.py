"""The way to the workers of a node: whether it is ready, and how our key is let in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tpuctl.api.ssh import os_login
from tpuctl.errors import PreemptedError, TpuctlError
from tpuctl.models.node import LOST_STATES, Node, Worker
from tpuctl.operations.slices import lifecycle
from tpuctl.operations.slices.wait import Patience
from tpuctl.operations.workers.forwarding import Connect

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.api.ssh.tunnels import WorkerTunnels
    from tpuctl.api.ssh.worker_shell import Shell
    from tpuctl.api.tpu.tpu import TpuApi

KEY_TIMEOUT_S = 60.0


def accessible_node(
    api: TpuApi, access: Access, zone: str, name: str, sleep: Callable[[float], None]
) -> tuple[Node, Access]:
    """A READY node that lets our key in, and the key with the user name that it goes by there.

    Raises NotFoundError, PreconditionError, PreemptedError, PermissionDeniedError.
    """
    node = lifecycle.find(api, zone, name)
    lifecycle.require_ready(node)
    if os_login.is_on(node.metadata):
        return node, os_login.with_os_login(access)
    lifecycle.admit_key(api, node, access, Patience(KEY_TIMEOUT_S, sleep))
    return node, access


def raise_if_preempted(api: TpuApi, node: Node) -> None:
    """Raises PreemptedError when workers failed because their node was taken away."""
    try:
        newest = lifecycle.find(api, node.zone, node.name)
        if newest.state in LOST_STATES:
            lifecycle.require_ready(newest)
    except PreemptedError:
        raise
    except TpuctlError:
        return  # the error of the workers is the better message


@asynccontextmanager
async def open_shell(
    api: TpuApi, access: Access, node: Node, worker: Worker
) -> AsyncIterator[Shell]:
    """A connection to one worker; raises TransientError, RefusedError."""
    from tpuctl.api.ssh.worker_connections import WorkerConnections

    async with (
        WorkerConnections(api, access) as connections,
        await connections.open(node, worker) as shell,
    ):
        yield shell


def tunnel_opener(api: TpuApi, access: Access, node: Node, worker_id: int) -> Connect:
    """What connects to a worker's ports; each time but the first the node is looked for again."""
    known = [node]

    def find_again() -> Node:
        return lifecycle.require_ready(lifecycle.find(api, node.zone, node.name))

    @asynccontextmanager
    async def connect() -> AsyncIterator[WorkerTunnels]:
        from tpuctl.api.ssh.tunnels import WorkerTunnels

        newest = known.pop() if known else await asyncio.to_thread(find_again)
        async with open_shell(api, access, newest, newest.workers[worker_id]) as shell:
            yield WorkerTunnels(shell)

    return connect
