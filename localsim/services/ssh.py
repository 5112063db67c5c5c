"""The SSH door of one worker: what sshd does on a TPU VM, in front of the worker's programs.

Keys only, from the node's metadata; commands, shells, terminals and SFTP; nothing is forwarded.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Self

import asyncssh

from localsim.services import ssh_session
from localsim.services.sftp import Files
from localsim.services.ssh_session import Session
from localsim.workers.worker import Worker

HANGUP_GRACE_S = 3.0
LOGIN_S = 15.0
# A client that has lost its network is given up after 20 s.
KEEPALIVE_S = 5
KEEPALIVE_COUNT = 4
SFTP_VERSION = 3


class Door:
    """A worker's SSH server and its connections."""

    def __init__(self, worker: Worker, *, hangup_grace_s: float) -> None:
        self._worker = worker
        self._hangup_grace_s = hangup_grace_s
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._sessions: set[asyncio.Task[None]] = set()

    async def listen(self, listening: socket.socket) -> Self:
        """Serve on a listening socket."""
        self._acceptor = await asyncssh.listen(
            sock=listening,
            server_factory=lambda: _Login(self._worker, self._connections, self._session),
            server_host_keys=[self._worker.host_key],
            encoding=None,
            line_editor=False,
            agent_forwarding=False,
            x11_forwarding=False,
            gss_host=None,
            login_timeout=LOGIN_S,
            keepalive_interval=KEEPALIVE_S,
            keepalive_count_max=KEEPALIVE_COUNT,
        )
        return self

    async def close(self) -> None:
        """Break every connection and stop; returns when no session is left."""
        if self._acceptor:
            self._acceptor.close()
        connections = list(self._connections)
        for connection in connections:
            connection.abort()
        await asyncio.gather(*self._sessions, return_exceptions=True)
        await asyncio.gather(*(connection.wait_closed() for connection in connections))

    def _session(self) -> Session:
        return Session(self._run, self._files, SFTP_VERSION, allow_scp=False)

    def _files(self, channel: Any) -> Files:
        return Files(channel, self._worker.disk)

    async def _run(self, session: asyncssh.SSHServerProcess[bytes]) -> None:
        task = asyncio.current_task()
        if task and isinstance(session, Session):
            self._sessions.add(task)
            task.add_done_callback(self._sessions.discard)
            await ssh_session.run(session, self._worker, self._hangup_grace_s)


async def open_door(
    worker: Worker, listening: socket.socket, *, hangup_grace_s: float = HANGUP_GRACE_S
) -> Door:
    """Serve SSH to a worker on a listening socket."""
    return await Door(worker, hangup_grace_s=hangup_grace_s).listen(listening)


class _Login(asyncssh.SSHServer):
    """Who may enter; everything that forwards is refused by asyncssh's own defaults."""

    def __init__(
        self,
        worker: Worker,
        connections: set[asyncssh.SSHServerConnection],
        session: Callable[[], Session],
    ) -> None:
        self._worker = worker
        self._connections = connections
        self._session = session
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncssh's
        if self._connection:
            self._connections.discard(self._connection)

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        words = key.export_public_key().decode().split()
        return " ".join(words[:2]) in self._worker.authorized_keys(username)

    def session_requested(self) -> Session:
        return self._session()
