"""The route to the workers of a node that a dialer names."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tpuctl.api.ssh import dialers
from tpuctl.api.ssh.dialers import SSH_PORT, Dialer
from tpuctl.api.ssh.keys import Access
from tpuctl.api.ssh.known_hosts import WorkerIdentity
from tpuctl.models.node import Node, Worker


class Route(Protocol):
    """Makes connections to workers, which may share a jump host or a relay."""

    async def dial(self, worker: Worker, port: int = SSH_PORT) -> socket.socket:
        """A connection to a port of a worker; raises TransientError, RefusedError, UsageError."""
        ...

    async def close(self) -> None:
        """Close what is shared; connections may end with it."""
        ...


@dataclass(frozen=True, slots=True)
class AddressRoute:
    """Makes connections that share nothing."""

    dialer: Dialer

    async def dial(self, worker: Worker, port: int = SSH_PORT) -> socket.socket:
        """A connection to a port of a worker; raises TransientError."""
        return await dialers.dial(self.dialer, worker, port)

    async def close(self) -> None:
        """Do nothing: nothing is shared."""


def route_to(access: Access, node: Node, known: Mapping[int, WorkerIdentity]) -> Route:
    """The route to a node's workers, whose identities are `known`; raises UsageError."""
    dialer = dialers.parse_dialer(access.dialer)
    if dialer.kind == dialers.IAP:
        from tpuctl.api.ssh.iap import google_relay  # aiohttp takes its time to load

        return google_relay(access.context, node, known)
    return shared_route(access)


def shared_route(access: Access) -> Route:
    """The route to workers of any nodes, for every dialer but IAP; raises UsageError."""
    dialer = dialers.parse_dialer(access.dialer)
    if dialer.kind == dialers.JUMP:
        from tpuctl.api.ssh.jump import JumpHost

        return JumpHost(dialer, access.known_jump_hosts)
    return AddressRoute(dialer)
