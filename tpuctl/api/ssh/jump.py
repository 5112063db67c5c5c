"""Connections to workers through one SSH connection to a jump host, with the user's own keys."""

import asyncio
import socket
from pathlib import Path

import asyncssh

from tpuctl.api.ssh.dialers import SSH_PORT, Dialer, unreachable_error
from tpuctl.api.ssh.known_hosts import fingerprint
from tpuctl.api.ssh.login import HostKeyRecorder
from tpuctl.api.ssh.stream_socket import socket_of
from tpuctl.api.ssh.tunnels import TunnelStream
from tpuctl.errors import RefusedError, TransientError
from tpuctl.models.node import Worker
from tpuctl.network_policy import CONNECT_S, SSH_KEEPALIVE_S, SSH_LOGIN_S


class JumpHost:
    """The connection to a jump host, made when it is needed: first, or after it broke."""

    def __init__(self, dialer: Dialer, known_hosts: Path) -> None:
        self._dialer = dialer
        self._known_hosts = known_hosts
        self._opening = asyncio.Lock()
        self._connection: asyncssh.SSHClientConnection | None = None

    async def dial(self, worker: Worker, port: int = SSH_PORT) -> socket.socket:
        """A connection to a worker's internal address; raises TransientError, RefusedError."""
        async with self._opening:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._open()
        try:
            async with asyncio.timeout(CONNECT_S):
                channel = await self._connection.open_connection(
                    worker.ip_address, port, encoding=None
                )
        except (OSError, asyncssh.Error, TimeoutError) as error:
            place = f"{worker.ip_address}:{port} from {self._dialer.host}"
            raise unreachable_error(worker, place, error) from error
        stream = TunnelStream(*channel)
        return socket_of(stream.read, stream.write, stream.close)

    async def close(self) -> None:
        """Close the connection to the jump host, and all channels with it."""
        if self._connection:
            self._connection.abort()

    async def _open(self) -> asyncssh.SSHClientConnection:
        place = f"jump host {self._dialer.host}:{self._dialer.port}"
        client = HostKeyRecorder()
        user = {"username": self._dialer.user} if self._dialer.user else {}
        known = str(self._known_hosts) if self._known_hosts.is_file() else ([], [], [])
        try:
            async with asyncio.timeout(SSH_LOGIN_S):
                return await asyncssh.connect(
                    self._dialer.host,
                    self._dialer.port,
                    known_hosts=known,
                    client_factory=lambda: client,
                    config=None,
                    keepalive_interval=SSH_KEEPALIVE_S,
                    **user,
                )
        except asyncssh.HostKeyNotVerifiable as error:
            raise self._unknown(place, client.shown) from error
        except (OSError, asyncssh.Error, TimeoutError) as error:
            reason = str(error) or f"no login within {SSH_LOGIN_S:.0f} s"
            raise TransientError(f"{place}: {reason}") from error

    def _unknown(self, place: str, shown: str) -> RefusedError:
        shows = f" ({fingerprint(shown)})" if shown else ""
        scan = f"ssh-keyscan -p {self._dialer.port} {self._dialer.host} >> {self._known_hosts}"
        return RefusedError(
            f"{place} shows a host key{shows} that is not known",
            hint=f"when it is the right one: {scan}",
        )
