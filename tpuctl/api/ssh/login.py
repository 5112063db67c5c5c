"""Logs in to a worker by SSH, which shows its host key and takes our key."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import asyncssh

from tpuctl.api.ssh.keys import Access
from tpuctl.api.ssh.worker_shell import Shell
from tpuctl.errors import RefusedError, TransientError
from tpuctl.models.node import Worker
from tpuctl.network_policy import (
    SSH_KEEPALIVE_COUNT,
    SSH_KEEPALIVE_S,
    SSH_KEYS_PAUSE_S,
    SSH_KEYS_S,
    SSH_LOGIN_S,
    SSH_STARTUPS_PAUSE_S,
    SSH_STARTUPS_TRIES,
    jittered_pause_s,
)

FAST_ALGORITHMS: dict[str, Any] = {
    "kex_algs": "^curve25519-sha256",
    "encryption_algs": "^aes128-gcm@openssh.com",
}
"""The least work for both ends, first where both know it."""
DROP_ERRORS = (asyncssh.ConnectionLost, ConnectionResetError, BrokenPipeError)
Dial = Callable[[Worker], Awaitable[socket.socket]]


class HostKeyRecorder(asyncssh.SSHClient):
    """An SSH client that refuses unknown host keys; `shown` is the last that it refused."""

    shown = ""
    """The public key, without a comment; '' as long as none was refused."""

    def validate_host_public_key(self, *shown: Any) -> bool:
        """Remember the key in OpenSSH's form, and refuse it."""
        self.shown = " ".join(shown[-1].export_public_key().decode().split()[:2])
        return False


class NotAdmittedError(TransientError):
    """The worker does not accept our key; a new key takes up to half a minute to arrive."""


class UnknownHostKeyError(RefusedError):
    """The worker shows a host key that is not the one it should have."""

    def __init__(self, message: str, shown: str) -> None:
        """`shown` is the public key that it showed."""
        super().__init__(message)
        self.shown = shown


class DroppedError(TransientError):
    """The worker ended the connection before the login."""


async def open_shell(worker: Worker, access: Access, *, host_key: str | None, way: Dial) -> Shell:
    """Log in to a worker, through `way`, that shows the host key the control plane knows.

    Raises TransientError when it cannot be reached, RefusedError when it is somebody else.
    """
    for attempt in range(SSH_STARTUPS_TRIES - 1):
        try:
            return await _log_in(worker, access, host_key, way)
        except DroppedError:
            await asyncio.sleep(jittered_pause_s(attempt, first_s=SSH_STARTUPS_PAUSE_S))
    return await _log_in(worker, access, host_key, way)


async def open_shell_with_retry(
    worker: Worker, access: Access, *, host_key: str | None, way: Dial
) -> Shell:
    """`open_shell`, again and again for `SSH_KEYS_S` while the worker does not take our key."""
    loop = asyncio.get_running_loop()
    last_s = loop.time() + SSH_KEYS_S
    while True:
        try:
            return await open_shell(worker, access, host_key=host_key, way=way)
        except NotAdmittedError:
            if loop.time() > last_s:
                raise
        await asyncio.sleep(SSH_KEYS_PAUSE_S)


async def _log_in(worker: Worker, access: Access, host_key: str | None, way: Dial) -> Shell:
    connection = await way(worker)
    client = HostKeyRecorder()
    try:
        async with asyncio.timeout(SSH_LOGIN_S):
            made = await asyncssh.connect(
                sock=connection,
                host=worker.ip_address,
                username=access.user,
                client_keys=[_private(access.key_path)],
                known_hosts=([asyncssh.import_public_key(host_key)] if host_key else [], [], []),
                client_factory=lambda: client,
                agent_path=None,
                config=None,
                keepalive_interval=SSH_KEEPALIVE_S,
                keepalive_count_max=SSH_KEEPALIVE_COUNT,
                **FAST_ALGORITHMS,
            )
    except BaseException as error:
        connection.close()
        if isinstance(error, (OSError, asyncssh.Error, TimeoutError)):
            raise _login_error(worker, client.shown, error) from error
        raise
    return Shell(worker.worker_id, made)


def _login_error(worker: Worker, shown: str, error: Exception) -> Exception:
    who = f"worker {worker.worker_id}"
    if shown or isinstance(error, asyncssh.HostKeyNotVerifiable):
        message = (
            f"{who} at {worker.ip_address} shows a host key that the Cloud TPU API does not know"
        )
        return UnknownHostKeyError(message, shown)
    if isinstance(error, asyncssh.PermissionDenied):
        return NotAdmittedError(f"{who}: {error}", hint="run it again in a minute")
    if isinstance(error, DROP_ERRORS):
        return DroppedError(f"{who}: it ends the connection before the login")
    return TransientError(f"{who}: {str(error) or f'no login within {SSH_LOGIN_S:.0f} s'}")


@cache
def _private(path: Path) -> asyncssh.SSHKey:
    return asyncssh.read_private_key(path)
