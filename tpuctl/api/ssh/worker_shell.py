"""Commands on a worker, through one open SSH connection to it."""

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Self

import asyncssh

from tpuctl.api.ssh.remote_command import (
    HEARTBEAT,
    HEARTBEAT_S,
    command_and_watcher,
    heartbeat_command,
)
from tpuctl.errors import TransientError
from tpuctl.models.operation import CommandFailedError, CommandResult, Terminal
from tpuctl.network_policy import SSH_KEEPALIVE_COUNT, SSH_KEEPALIVE_S

Write = Callable[[bytes], None]
Process = asyncssh.SSHClientProcess[bytes]
LOGIN_SHELL = ("sh", "-c", 'exec "${SHELL:-/bin/sh}" -l')
CHUNK_BYTES = 64 * 1024
SILENT_S = SSH_KEEPALIVE_S * (SSH_KEEPALIVE_COUNT + 1)
"""After so long without an answer a worker is lost."""
_REASONS = {
    "Server not responding to keepalive": f"no answer for {SILENT_S} s",
    "Connection lost": "the connection broke",
}


class Shell:
    """One open connection to one worker; an async context manager."""

    def __init__(self, worker_id: int, connection: asyncssh.SSHClientConnection) -> None:
        """`connection` is for what only SSH itself can do, within `lost_is_transient`."""
        self.worker_id = worker_id
        self.connection = connection
        self._attached: Process | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and with it what is attached to it."""
        self.connection.abort()

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = None
    ) -> CommandResult:
        """Run argv to its end and keep what it printed; TransientError when the worker is lost."""
        async with lost_is_transient(self.worker_id, has_output=False):
            done = await self.connection.run(
                shlex.join(argv), input=stdin, encoding=None, timeout=timeout_s
            )
            status = _status(done)
        return CommandResult(self.worker_id, status, _bytes(done.stdout), _bytes(done.stderr))

    async def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> AsyncIterator[bytes]:
        """What argv prints, as it comes; ends when argv does.

        Raises TransientError when the worker is lost, CommandFailedError when argv fails.
        """
        async with lost_is_transient(self.worker_id, has_output=False):
            process = await self.connection.create_process(
                shlex.join(argv), encoding=None, input=stdin or None
            )
            async with process:
                while chunk := await process.stdout.read(CHUNK_BYTES):
                    yield bytes(chunk)
                done = await process.wait()
            status = _status(done)
        if status:
            said = _bytes(done.stderr)
            raise CommandFailedError(CommandResult(self.worker_id, status, stderr=said))

    async def execute(
        self,
        argv: Sequence[str],
        *,
        out: Write,
        err: Write,
        timeout_s: float | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> int:
        """Run argv, which ends when we do, and pass on what it prints; returns its exit status.

        `variables` are set beside the worker's own.
        Raises TransientError when the worker is lost, TimeoutError when argv takes too long.
        """
        async with asyncio.timeout(timeout_s), lost_is_transient(self.worker_id):
            line = heartbeat_command(argv, variables)
            process = await self.connection.create_process(line, encoding=None)
            here = asyncio.create_task(_send_heartbeats(process))
            return await _relay_output(process, out, err, beside=here)

    async def converse(
        self, argv: Sequence[str], *, stdin: AsyncIterator[bytes], out: Write, err: Write
    ) -> int:
        """Run argv with the input that `stdin` yields, pass on its output; returns its exit status.

        It must end by itself when its standard input does: that is how it learns of our end.
        """
        async with lost_is_transient(self.worker_id):
            process = await self.connection.create_process(shlex.join(argv), encoding=None)
            giving = asyncio.create_task(_send_stdin(stdin, process))
            status = await _relay_output(process, out, err, beside=giving)
            with contextlib.suppress(asyncio.CancelledError):
                await giving
            return status

    async def login(
        self,
        *,
        out: Write,
        err: Write,
        stdin: asyncio.StreamReader,
        terminal: Terminal | None = None,
        argv: Sequence[str] = (),
    ) -> int:
        """Run a login shell, or argv, on our streams until either ends; returns its exit status."""
        size = (terminal.columns, terminal.rows) if terminal else None
        line, beside = command_and_watcher(argv or LOGIN_SHELL)
        async with lost_is_transient(self.worker_id), self._keeping(beside):
            process = await self.connection.create_process(
                line,
                encoding=None,
                term_type=terminal.kind if terminal else None,
                term_size=size,
            )
            self._attached = process
            feeding = asyncio.create_task(_feed(stdin, process))
            return await _relay_output(process, out, err, beside=feeding)

    @contextlib.asynccontextmanager
    async def _keeping(self, line: str) -> AsyncIterator[None]:
        """Send heartbeats to the process that watches over another command, in the meantime."""
        keeper = await self.connection.create_process(line, encoding=None)
        here = asyncio.create_task(_send_heartbeats(keeper))
        try:
            await keeper.stdout.readline()  # from now on it sees our end
            yield
        finally:
            here.cancel()
            keeper.close()

    def resize(self, columns: int, rows: int) -> None:
        """Tell the attached command the new size of its terminal."""
        if self._attached:
            self._attached.change_terminal_size(columns, rows)


@contextlib.asynccontextmanager
async def lost_is_transient(worker_id: int, *, has_output: bool = True) -> AsyncIterator[None]:
    """Raise TransientError for a connection that breaks.

    `has_output`: what comes is written to our own output meanwhile.
    """
    try:
        yield
    except (OSError, asyncssh.Error, TimeoutError) as error:
        if isinstance(error, BrokenPipeError) and has_output:
            raise  # our own output: whoever read it has gone
        raise TransientError(f"worker {worker_id}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Why a connection broke, in words without the name of a library."""
    text = str(error) or "no answer"
    return _REASONS.get(text, text)


async def _relay_output(
    process: Process, out: Write, err: Write, *, beside: asyncio.Task[None]
) -> int:
    """Pass on what a process prints until it ends; returns its exit status."""
    try:
        await asyncio.gather(_pump(process.stdout, out), _pump(process.stderr, err))
        return _status(await process.wait())
    finally:
        beside.cancel()
        process.close()


async def _pump(reader: asyncssh.SSHReader[bytes], write: Write) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        write(bytes(chunk))


async def _send_heartbeats(process: Process) -> None:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        while True:
            process.stdin.write(HEARTBEAT)
            await asyncio.sleep(HEARTBEAT_S)


async def _send_stdin(stdin: AsyncIterator[bytes], process: Process) -> None:
    """Send input to a process; that it ends before it has read all is not an error."""
    try:
        async for block in stdin:
            process.stdin.write(block)
            await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError, asyncssh.Error):
        return
    finally:
        with contextlib.suppress(OSError, asyncssh.Error):
            process.stdin.write_eof()


async def _feed(stdin: asyncio.StreamReader, process: Process) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):  # it has ended meanwhile
        while chunk := await stdin.read(CHUNK_BYTES):
            process.stdin.write(chunk)
            await process.stdin.drain()
        process.stdin.write_eof()


def _bytes(data: bytes | str | None) -> bytes:
    return data if isinstance(data, bytes) else b""


def _status(done: asyncssh.SSHCompletedProcess) -> int:
    if done.returncode is None:
        raise ConnectionResetError("the connection ended before the command did")
    return done.returncode if done.returncode >= 0 else 128 - done.returncode
