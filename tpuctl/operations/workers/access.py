"""The way to the workers of a node: how our key is let in, and which of them answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuctl.api.ssh import os_login
from tpuctl.errors import PreemptedError, TpuctlError
from tpuctl.models.node import LOST_STATES, Node, Symptom, Worker
from tpuctl.models.operation import CommandResult
from tpuctl.operations.remote.fanout import WorkerReach, run_on_each
from tpuctl.operations.slices import lifecycle
from tpuctl.operations.slices.wait import Patience
from tpuctl.operations.workers.forwarding import Connect

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.api.ssh.tunnels import WorkerTunnels
    from tpuctl.api.ssh.worker_shell import Shell
    from tpuctl.api.tpu.tpu import TpuApi

KEY_TIMEOUT_S = 60.0
LOGIN_TIMEOUT_S = 10.0
YES = "yes"


FindNode = Callable[["TpuApi", str, str], Node]
"""From the API, a zone and a name to the node that is meant."""


def accessible_node(
    api: TpuApi,
    access: Access,
    zone: str,
    name: str,
    sleep: Callable[[float], None],
    find: FindNode = lifecycle.find,
) -> tuple[Node, Access]:
    """A READY node that lets our key in, and the key with the user name that it goes by there.

    Raises NotFoundError, PreconditionError, PreemptedError, PermissionDeniedError and what `find`
    raises.
    """
    node = find(api, zone, name)
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
    """A function that connects to a worker's ports; later calls look for the node again."""
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


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker as the API describes it, and whether a login works."""

    worker: Worker
    hostname: str | None
    symptoms: tuple[Symptom, ...]
    ssh: str | None = None
    """`yes`, or why not; None when it was not asked."""


def describe_workers(
    api: TpuApi, node: Node, answers: Mapping[int, str] | None = None
) -> list[WorkerStatus]:
    """Describe every worker of a node."""
    names = hostnames(api, node)
    return [
        WorkerStatus(
            worker,
            names.get(worker.worker_id),
            tuple(one for one in node.symptoms if one.worker_id == str(worker.worker_id)),
            (answers or {}).get(worker.worker_id),
        )
        for worker in node.workers
    ]


def hostnames(api: TpuApi, node: Node) -> dict[int, str]:
    """The host names of workers by their IDs, from their guest attributes, where they have any."""
    try:
        attributes_by_worker = api.guest_attributes(node.zone, node.name, "")
    except TpuctlError:  # a policy may switch guest attributes off
        return {}
    return {
        number: value
        for number, attributes in enumerate(attributes_by_worker)
        for key, value in attributes.items()
        if key.rpartition("/")[2] == "hostname"
    }


def try_logins(reach: WorkerReach) -> dict[int, str]:
    """Log in to each worker and run nothing; `yes`, or why that failed, by the worker's ID."""

    async def log_in(shell: Shell) -> CommandResult:
        return await shell.run(["true"], timeout_s=LOGIN_TIMEOUT_S)

    results = asyncio.run(run_on_each(reach, log_in))
    return {result.worker_id: _login_text(result) for result in results}


def _login_text(result: CommandResult) -> str:
    if result.lost is not None:
        return result.lost_because
    return YES if result.exit_status == 0 else f"exit status {result.exit_status} of true"
