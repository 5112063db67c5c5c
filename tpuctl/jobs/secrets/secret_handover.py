"""How values of a submitter's environment reach the supervisor of its host: a socket, no file.

The supervisor may have been started by another shell, with another environment. The socket lies in
its private directory; what comes over it stays in its memory.
"""

import asyncio
import json
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tpuctl.durable_directories import make_private
from tpuctl.errors import TransientError
from tpuctl.jobs.record import decoding
from tpuctl.jobs.secrets.job_secrets import SERVICE, SecretCache

PATIENCE_S = 5.0
POLL_S = 0.02
MAX_BYTES = 4 * 1024 * 1024
TAKEN = b"taken\n"


def socket_path(home: Path, context: str) -> Path:
    """Where the supervisor of a context listens."""
    return home / "supervisors" / f"{context}.sock"


@asynccontextmanager
async def serve(
    vault: SecretCache, home: Path, context: str, say: Callable[[str], None] = lambda _line: None
) -> AsyncIterator[None]:
    """Take what submitters of this machine hand over; only for the holder of the lock."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                _take(vault, await reader.readline())
                writer.write(TAKEN)
                await writer.drain()
        except (ValueError, KeyError, TimeoutError, ConnectionError):
            pass  # the other side hears that nothing was taken
        finally:
            writer.close()

    path = socket_path(home, context)
    try:
        server = await asyncio.start_unix_server(answer, sock=_bind_socket(path), limit=MAX_BYTES)
    except OSError as error:
        say(f"no values of secrets can be handed over here: {path}: {error.strerror}")
        yield
        return
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


def hand_over(home: Path, context: str, job_id: str, values: Mapping[str, str]) -> None:
    """Hand a job's values to the supervisor here, which may be starting. Raises TransientError."""
    deadline = time.monotonic() + PATIENCE_S
    message = json.dumps({"job": job_id, "values": dict(values)}).encode() + b"\n"
    while not _try_send(socket_path(home, context), message):
        if time.monotonic() > deadline:
            service = job_id.removeprefix(SERVICE)
            command = (
                f"service update {service} FILE" if service != job_id else "job retry " + job_id
            )
            raise TransientError(
                "the supervisor did not accept the secrets of the job, and the job waits for them",
                hint=f"run: tpuctl {command}",
            )
        time.sleep(POLL_S)


def _take(vault: SecretCache, line: bytes) -> None:
    message = decoding.parse_document(line)
    values = decoding.decode_value(Mapping[str, str], message["values"])
    job_id = str(message["job"])
    decoding.check_job_id(job_id.removeprefix(SERVICE))
    vault.take(job_id, values)


def _try_send(path: Path, message: bytes) -> bool:
    try:
        with _short_path(path.parent) as directory, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_S)
            connection.connect(str(directory / path.name))
            connection.sendall(message)
            return connection.recv(len(TAKEN)) == TAKEN
    except OSError:
        return False


def _bind_socket(path: Path) -> socket.socket:
    """A socket that only its owner can connect to: its directory is private. Raises OSError."""
    make_private(path.parent)
    path.unlink(missing_ok=True)  # of a supervisor that was killed; the lock is ours
    listening = socket.socket(socket.AF_UNIX)
    try:
        with _short_path(path.parent) as directory:
            listening.bind(str(directory / path.name))
        path.chmod(0o600)
        listening.listen()
    except BaseException:
        listening.close()
        raise
    return listening


@contextmanager
def _short_path(directory: Path) -> Iterator[Path]:
    """Another name of a directory: an address of a socket has at most 107 bytes.

    It lies in /tmp, not in TMPDIR, which may be as long as the directory.
    """
    with tempfile.TemporaryDirectory(prefix="tpuctl-", dir="/tmp") as made:
        link = Path(made, "s")
        link.symlink_to(directory.absolute(), target_is_directory=True)
        yield link
