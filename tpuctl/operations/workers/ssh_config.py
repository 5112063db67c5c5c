"""What OpenSSH needs to reach the workers of a node: a block for each, and the way to them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.api.ssh import dialers, known_hosts
from tpuctl.operations.remote.fanout import WorkerReach

if TYPE_CHECKING:
    from tpuctl.api.ssh.routes import Route
    from tpuctl.models.node import Worker

READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class SshHost:
    """One worker as OpenSSH reaches it. `proxy` is a setting and its value; none: directly."""

    names: Sequence[str]
    address: str
    user: str
    key_file: Path
    known_hosts_file: Path
    alias: str
    proxy: tuple[str, str] | None

    @property
    def settings(self) -> Mapping[str, str]:
        """The lines of its block, by their keywords."""
        return {
            "HostName": self.address,
            "User": self.user,
            "IdentityFile": _quoted(self.key_file),
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": _quoted(self.known_hosts_file),
            "HostKeyAlias": self.alias,
            "StrictHostKeyChecking": "yes",
            "ServerAliveInterval": "15",
            **({self.proxy[0]: self.proxy[1]} if self.proxy else {}),
        }


def ssh_hosts(reach: WorkerReach, proxy_command: Callable[[int], str]) -> list[SshHost]:
    """The workers of a node for OpenSSH, whose keys are looked up and kept.

    `proxy_command` makes the command that reaches a worker where OpenSSH itself cannot. Raises
    RefusedError for a worker whose host key is not known, UsageError, DamagedStateError.
    """
    node, access = reach.node, reach.access
    dialer = dialers.parse_dialer(access.dialer)
    known = known_hosts.identities(reach.api, node, access.known_hosts)
    found = []
    for worker in reach.workers:
        known_hosts.host_key(known, worker)
        number = worker.worker_id
        is_direct = dialer.kind == dialers.DIRECT and worker.external_ip
        host = SshHost(
            names=[*([node.name] if number == 0 else []), f"{node.name}-{number}"],
            address=str(worker.external_ip) if is_direct else worker.ip_address,
            user=access.user,
            key_file=access.key_path,
            known_hosts_file=known_hosts.known_hosts_path(access.known_hosts, node),
            alias=known_hosts.host_key_alias(node, number),
            proxy=_proxy(dialer, proxy_command, number),
        )
        found.append(host)
    return found


def _proxy(
    dialer: dialers.Dialer, proxy_command: Callable[[int], str], number: int
) -> tuple[str, str] | None:
    if dialer.kind in (dialers.DIRECT, dialers.INTERNAL):
        return None
    if dialer.kind == dialers.JUMP:
        user = f"{dialer.user}@" if dialer.user else ""
        return "ProxyJump", f"{user}{dialer.host}:{dialer.port}"
    return "ProxyCommand", proxy_command(number)


async def relay(
    reach: WorkerReach, read: asyncio.StreamReader, write: Callable[[bytes], None]
) -> None:
    """Carry bytes between a stream and port 22 of the only worker of `reach`, until it closes.

    Raises TransientError, RefusedError.
    """
    from tpuctl.api.ssh.routes import route_to

    (worker,) = reach.workers
    known = await asyncio.to_thread(
        known_hosts.identities, reach.api, reach.node, reach.access.known_hosts
    )
    route = route_to(reach.access, reach.node, known)
    try:
        await _carry(route, worker, read, write)
    finally:
        await route.close()


async def _carry(
    route: Route, worker: Worker, read: asyncio.StreamReader, write: Callable[[bytes], None]
) -> None:
    loop = asyncio.get_running_loop()
    with await route.dial(worker) as connection:
        connection.setblocking(False)  # noqa: FBT003

        async def send() -> None:
            with contextlib.suppress(OSError):  # the other end closes first
                while data := await read.read(READ_BYTES):
                    await loop.sock_sendall(connection, data)
                connection.shutdown(socket.SHUT_WR)

        sending = asyncio.create_task(send())
        try:
            while data := await loop.sock_recv(connection, READ_BYTES):
                write(data)
        finally:
            sending.cancel()


def _quoted(path: Path) -> str:
    """The path as a value of ssh_config, where `%` begins a token."""
    return '"' + str(path).replace("%", "%%") + '"'
