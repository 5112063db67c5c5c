"""Connections to ports of a worker through its SSH connection: direct-tcpip, as `ssh -L`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncssh

from tpuctl.errors import PreconditionError, TransientError

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell

CHUNK_BYTES = 64 * 1024
HOST = "localhost"
"""The worker itself: programs that are for their own machine alone listen there."""
_PROHIBITED = "its SSH server forwards nothing"


class TunnelStream:
    """Bytes to and from a port of a worker; every method raises OSError when it breaks."""

    def __init__(
        self, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]
    ) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """The next bytes; none at the end."""
        try:
            return bytes(await self._reader.read(CHUNK_BYTES))
        except asyncssh.Error as error:
            raise ConnectionError(str(error)) from error

    async def write(self, data: bytes) -> None:
        """Send bytes, at the pace of the other end."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except asyncssh.Error as error:
            raise ConnectionError(str(error)) from error

    def write_eof(self) -> None:
        """Tell the other end that no more bytes come."""
        if self._writer.can_write_eof():
            self._writer.write_eof()

    def close(self) -> None:
        """Close the connection to the port."""
        self._writer.close()


class WorkerTunnels:
    """A worker's SSH connection, as a way to its ports."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    @property
    def worker_id(self) -> int:
        """The number of the worker whose ports these are."""
        return self._shell.worker_id

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return bool(self._shell.connection.is_closed())

    def close(self) -> None:
        """End the connection, and every tunnel with it."""
        self._shell.close()

    async def dial(self, port: int) -> TunnelStream:
        """A connection to a port of the worker.

        Raises PreconditionError when it refuses, TransientError when the worker is lost.
        """
        try:
            reader, writer = await self._shell.connection.open_connection(HOST, port)
        except asyncssh.ChannelOpenError as error:
            if self._shell.connection.is_closed():
                raise TransientError(f"worker {self.worker_id}: {error.reason}") from error
            prohibited = error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED
            why = _PROHIBITED if prohibited else error.reason.lower() or "connection refused"
            raise PreconditionError(f"worker {self.worker_id} port {port}: {why}") from error
        except (asyncssh.Error, OSError) as error:
            raise TransientError(f"worker {self.worker_id}: {error}") from error
        return TunnelStream(reader, writer)

    async def broken(self) -> None:
        """Returns when the connection has ended."""
        await self._shell.connection.wait_closed()
