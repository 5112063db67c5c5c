"""The SSH server of one worker: what sshd does on a TPU VM.

Keys only, from the node's metadata; commands, shells, terminals, SFTP, and connections onward from
the worker (`ssh -L`). Nothing is forwarded towards the client.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Self

import asyncssh

from localsim.services.ssh import ssh_session
from localsim.services.ssh.ssh_channel import SshSession
from localsim.services.ssh.ssh_transport import SshTransport
from localsim.workers.ssh_endpoint import SshBehaviour
from localsim.workers.worker import Worker

LOGIN_S = 15.0
# A client that has lost its network is given up after 20 s.
KEEPALIVE_S = 5
KEEPALIVE_COUNT = 4
VERSION = "OpenSSH_8.9p1 localsim"
"""Clients go by the first word: SFTP's symlink has its arguments in OpenSSH's order."""
_DEAD = (SshBehaviour.HANGS, SshBehaviour.UNREACHABLE)


class SshServer:
    """A worker's SSH server and its connections."""

    def __init__(self, worker: Worker) -> None:
        self.behaviour = SshBehaviour.SERVES
        self._worker = worker
        self.is_closed = False
        self._servers: list[asyncio.Server] = []
        self._lines: set[SshTransport] = set()
        self._sessions: set[asyncio.Task[None]] = set()
        self._options = asyncssh.SSHServerConnectionOptions(
            server_factory=lambda: _Login(worker, self._begin),
            server_host_keys=[worker.host_key],
            server_version=VERSION,
            encoding=None,
            line_editor=False,
            agent_forwarding=False,
            x11_forwarding=False,
            gss_host=None,
            login_timeout=LOGIN_S,
            keepalive_interval=KEEPALIVE_S,
            keepalive_count_max=KEEPALIVE_COUNT,
        )

    async def listen(self, listening: socket.socket) -> Self:
        """Serve on this listening socket too; the first has the worker's address."""
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(self._protocol, sock=listening))
        return self

    @property
    def address(self) -> tuple[str, int]:
        """The address and port at which the worker's clients find it."""
        host, port = self._servers[0].sockets[0].getsockname()
        return host, port

    async def adopt(self, connection: socket.socket) -> None:
        """Serve a client that has connected elsewhere."""
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(self._protocol, connection)

    def behave(self, manner: SshBehaviour) -> None:
        """Apply a fault to the connections, those that exist included."""
        self.behaviour = manner
        for line in list(self._lines):
            if line.server:  # a server that hangs counts no time
                line.server.set_keepalive(0 if manner is SshBehaviour.HANGS else KEEPALIVE_S)
            if manner in _DEAD:
                line.die()
            else:
                line.revive()

    async def close(self) -> None:
        """Break every connection and stop; returns when no session is left."""
        self.is_closed = True
        for server in self._servers:
            server.close()
        lines = list(self._lines)
        for line in lines:
            line.cut()
        await asyncio.gather(*self._sessions, return_exceptions=True)
        await asyncio.gather(*(line.server.wait_closed() for line in lines if line.server))

    def _protocol(self) -> asyncio.Protocol:
        """The near end of one more connection."""
        if self.is_closed or self.behaviour is SshBehaviour.REFUSES:
            return _Refusal()
        line = SshTransport(self._serve, is_dead=self.behaviour in _DEAD, ended=self._lines.discard)
        self._lines.add(line)
        return line

    def _serve(self) -> asyncssh.SSHServerConnection:
        return asyncssh.SSHServerConnection(asyncio.get_running_loop(), self._options)

    def _begin(self, session: SshSession) -> None:
        task = asyncio.create_task(ssh_session.run_session(session, self._worker))
        self._sessions.add(task)
        task.add_done_callback(self._sessions.discard)


async def open_ssh_server(worker: Worker, listening: socket.socket) -> SshServer:
    """Serve SSH to a worker on a listening socket."""
    return await SshServer(worker).listen(listening)


class _Refusal(asyncio.Protocol):
    """Disconnects every client."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class _Login(asyncssh.SSHServer):
    """The logins and requests that are accepted; asyncssh's defaults refuse the rest."""

    def __init__(self, worker: Worker, begin: Callable[[SshSession], None]) -> None:
        self._worker = worker
        self._begin = begin

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        words = key.export_public_key().decode().split()
        return " ".join(words[:2]) in self._worker.authorized_keys(username)

    def session_requested(self) -> SshSession:
        return SshSession(self._begin)

    async def connection_requested(
        self,
        dest_host: str,
        dest_port: int,
        orig_host: str,  # noqa: ARG002 -- asyncssh's
        orig_port: int,  # noqa: ARG002
    ) -> Any:
        """The near end of a connection made by the worker; raises ChannelOpenError."""
        try:
            connection = await self._worker.host.dial(dest_host, dest_port)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, reason) from None
        loop = asyncio.get_running_loop()
        _, far = await loop.create_connection(asyncssh.SSHForwarder, sock=connection)
        return asyncssh.SSHForwarder(far)
