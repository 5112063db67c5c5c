"""Commands on a worker, over SSH to the worker's own address and port 22."""

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import asyncssh

from tpuctl.api.dialers import dial
from tpuctl.api.keys import Access
from tpuctl.errors import RefusedError, TransientError
from tpuctl.models.node import Worker
from tpuctl.models.operation import Completed

LOGIN_S = 15.0
KEYS_S = 30.0
"""How long a worker may take to learn our key: its agent reads the metadata now and then."""
KEYS_PAUSE_S = 1.0
KEEPALIVE_S = 10
CHUNK_BYTES = 64 * 1024
HERE_S = 5.0
ATTACHED = Path(__file__).parents[1] / "agent" / "attached.py"
"""What runs a command on a worker for as long as we are here."""


class NotAdmittedError(TransientError):
    """The worker does not take our key, or not yet."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal that a remote shell is shown on."""

    kind: str
    columns: int
    rows: int


class Shell:
    """One open connection to one worker; an async context manager."""

    def __init__(self, worker_id: int, connection: asyncssh.SSHClientConnection) -> None:
        self.worker_id = worker_id
        self._connection = connection
        self._attached: asyncssh.SSHClientProcess[bytes] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and with it what is attached to it."""
        self._connection.abort()

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = None
    ) -> Completed:
        """Run argv to its end and keep what it printed; TransientError when the worker is lost."""
        async with _lost_is_transient(self.worker_id):
            done = await self._connection.run(
                shlex.join(argv), input=stdin, encoding=None, timeout=timeout_s
            )
            status = _status(done)
        return Completed(self.worker_id, status, _bytes(done.stdout), _bytes(done.stderr))

    async def stream(self, argv: Sequence[str]) -> AsyncIterator[bytes]:
        """What argv prints, as it comes; ends when argv does. Raises TransientError."""
        async with _lost_is_transient(self.worker_id):
            process = await self._connection.create_process(shlex.join(argv), encoding=None)
            async with process:
                while chunk := await process.stdout.read(CHUNK_BYTES):
                    yield bytes(chunk)

    async def execute(
        self,
        argv: Sequence[str],
        *,
        out: Callable[[bytes], None],
        err: Callable[[bytes], None],
    ) -> int:
        """Run argv and pass on what it prints; it ends when we do. Its exit status."""
        command = shlex.join(["python3", "-c", ATTACHED.read_text("utf-8"), *argv])
        async with _lost_is_transient(self.worker_id):
            process = await self._connection.create_process(command, encoding=None)
            async with process:
                here = asyncio.create_task(_say_that_we_are_here(process))
                try:
                    await asyncio.gather(_pump(process.stdout, out), _pump(process.stderr, err))
                    done = await process.wait()
                finally:
                    here.cancel()
            return _status(done)

    async def converse(
        self,
        argv: Sequence[str],
        *,
        stdin: AsyncIterator[bytes],
        out: Callable[[bytes], None],
        err: Callable[[bytes], None],
    ) -> int:
        """Run argv, which reads what `stdin` yields, and pass on what it prints; its exit status.

        It must end by itself when its standard input does: that is how it learns of our end.
        """
        async with _lost_is_transient(self.worker_id):
            process = await self._connection.create_process(shlex.join(argv), encoding=None)
            async with process:
                giving = asyncio.create_task(_give(stdin, process))
                try:
                    await asyncio.gather(_pump(process.stdout, out), _pump(process.stderr, err))
                    done = await process.wait()
                finally:
                    giving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await giving
            return _status(done)

    async def login(
        self,
        *,
        out: Callable[[bytes], None],
        err: Callable[[bytes], None],
        stdin: asyncio.StreamReader,
        terminal: Terminal | None = None,
    ) -> int:
        """A login shell joined to our streams; its exit status."""
        size = (terminal.columns, terminal.rows) if terminal else None
        async with _lost_is_transient(self.worker_id):
            process = await self._connection.create_process(
                None,
                encoding=None,
                term_type=terminal.kind if terminal else None,
                term_size=size,
            )
            self._attached = process
            async with process:
                feeding = asyncio.create_task(_feed(stdin, process))
                try:
                    await asyncio.gather(_pump(process.stdout, out), _pump(process.stderr, err))
                    done = await process.wait()
                finally:
                    feeding.cancel()
            return _status(done)

    def resize(self, columns: int, rows: int) -> None:
        """Tell the attached command that its terminal has another size now."""
        if self._attached:
            self._attached.change_terminal_size(columns, rows)


async def open_shell(worker: Worker, access: Access, *, host_key: str | None) -> Shell:
    """Log in to a worker that shows the host key the control plane knows.

    Raises TransientError when it cannot be reached, RefusedError when it is somebody else.
    """
    connection = await dial(access.dialer, worker)
    try:
        trusted = [asyncssh.import_public_key(host_key)] if host_key else []
        async with asyncio.timeout(LOGIN_S):
            client = await asyncssh.connect(
                sock=connection,
                host=worker.ip_address,
                username=access.user,
                client_keys=[str(access.key_path)],
                known_hosts=(trusted, [], []),
                agent_path=None,
                config=None,
                keepalive_interval=KEEPALIVE_S,
            )
    except asyncssh.HostKeyNotVerifiable as error:
        connection.close()
        raise RefusedError(
            f"worker {worker.worker_id} at {worker.ip_address} shows a host key "
            "that the Cloud TPU API does not know"
        ) from error
    except asyncssh.PermissionDenied as error:
        connection.close()
        raise NotAdmittedError(f"worker {worker.worker_id}: {error}") from error
    except (OSError, asyncssh.Error, TimeoutError) as error:
        connection.close()
        reason = str(error) or f"no login within {LOGIN_S:.0f} s"
        raise TransientError(f"worker {worker.worker_id}: {reason}") from error
    return Shell(worker.worker_id, client)


async def patient_shell(worker: Worker, access: Access, *, host_key: str | None) -> Shell:
    """`open_shell`, again and again for `KEYS_S` while the worker does not take our key."""
    loop = asyncio.get_running_loop()
    last_s = loop.time() + KEYS_S
    while True:
        try:
            return await open_shell(worker, access, host_key=host_key)
        except NotAdmittedError:
            if loop.time() > last_s:
                raise
        await asyncio.sleep(KEYS_PAUSE_S)


class _lost_is_transient:
    """A connection that breaks under a command is a lost worker."""

    def __init__(self, worker_id: int) -> None:
        self.worker_id = worker_id

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, BrokenPipeError):
            return  # our own output: whoever read it has gone
        if isinstance(error, (OSError, asyncssh.Error, TimeoutError)):
            raise TransientError(f"worker {self.worker_id}: {error or 'no answer'}") from error


async def _pump(reader: asyncssh.SSHReader[bytes], write: Callable[[bytes], None]) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        write(bytes(chunk))


async def _say_that_we_are_here(process: asyncssh.SSHClientProcess[bytes]) -> None:
    while True:
        process.stdin.write(b".")
        await asyncio.sleep(HERE_S)


async def _give(stdin: AsyncIterator[bytes], process: asyncssh.SSHClientProcess[bytes]) -> None:
    """Whoever ends before it has read everything says why by its exit status."""
    try:
        async for block in stdin:
            process.stdin.write(block)
            await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError, asyncssh.Error):
        return
    finally:
        with contextlib.suppress(OSError, asyncssh.Error):
            process.stdin.write_eof()


async def _feed(stdin: asyncio.StreamReader, process: asyncssh.SSHClientProcess[bytes]) -> None:
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
