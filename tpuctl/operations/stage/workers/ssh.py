"""Files to and from workers through their SSH connections, equal by SHA-256 at both ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuctl.agent import ship
from tpuctl.agent.copy import packing
from tpuctl.agent.copy.unpacking import FrameBuffer
from tpuctl.errors import IntegrityError, LocalIOError, NotFoundError, TransientError
from tpuctl.models.delivery import Delivery, Meter
from tpuctl.models.operation import CommandResult
from tpuctl.operations.remote import file_stream
from tpuctl.operations.remote.fanout import WorkerReach, deliver_on_reach, run_on_reach
from tpuctl.operations.remote.shipping import JsonLineReader, ship_archive

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a worker, and its path below what was asked for ('' for that itself)."""

    path: str
    size_bytes: int
    checksum: str
    mode: int


@dataclass(frozen=True, slots=True)
class WorkerPull:
    """The directory of this machine that a worker's files go to, by the names they get there."""

    directory: str
    files: Mapping[str, RemoteFile]


def outgoing_file(path: str, source: Path) -> packing.PackEntry:
    """A file of this machine as it is now, and its path below the target. Raises OSError."""
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        status = os.fstat(file.fileno())
    return packing.PackEntry(
        packing.FILE, os.path.realpath(source), path, status.st_mode & 0o777,
        size_bytes=status.st_size, sha256=digest,
    )  # fmt: skip


def send_files(
    reach: WorkerReach, files: Sequence[packing.PackEntry], root: str, meter: Meter
) -> list[Delivery]:
    """Send the files that the workers lack; a worker that fails stops no other."""
    rows = [(one.path, one.size_bytes, one.sha256, one.mode) for one in files]
    orders = ship.archive({"verb": "receive", **_receiver_orders(root), "files": rows})

    async def send(shell: Shell) -> Delivery:
        argv = await ship_archive(shell, orders)
        return await file_stream.send_entries(shell, argv, files, meter, is_resumed=True)

    return deliver_on_reach(reach, send)


def fetch_files(
    reach: WorkerReach, root: str, pulls: Mapping[int, WorkerPull], meter: Meter
) -> list[Delivery]:
    """Fetch the files that this machine lacks; a worker that fails stops no other.

    Raises LocalIOError.
    """

    async def receive(shell: Shell) -> Delivery:
        pull = pulls[shell.worker_id]
        names = list(pull.files)
        rows = [(name, one.size_bytes, one.checksum, one.mode) for name, one in pull.files.items()]
        events = file_stream.ReceiverEvents(shell.worker_id)
        orders = {**_receiver_orders(pull.directory), "files": rows}
        with file_stream.local_receiver(orders, events) as unpacker:
            try:
                needed = await asyncio.to_thread(unpacker.missing)
            except OSError as error:  # the disk is full
                raise LocalIOError(f"cannot write: {error.strerror}") from error
            events.take({"need": needed})
            wanted = {names[index]: offset for index, offset in needed}
            sent = [_sent(name, pull.files[name], offset) for name, offset in wanted.items()]
            argv = await _ship_sender(shell, root, sent)
            return await file_stream.receive_files(shell, argv, unpacker, events, meter)

    return deliver_on_reach(reach, receive)


def read_file(
    reach: WorkerReach, root: str, remote: RemoteFile, write: Callable[[bytes], object]
) -> None:
    """Give one file's bytes to `write`. Raises IntegrityError, LocalIOError, TransientError."""
    digest = hashlib.sha256()
    buffer = FrameBuffer()

    def take(data: bytes) -> None:
        for kind, payload in buffer.frames(data):
            if kind == packing.BYTES:
                _write(write, payload)
                digest.update(payload)

    async def read(shell: Shell) -> CommandResult:
        lines = JsonLineReader(lambda _event: None)
        argv = await _ship_sender(shell, root, [_sent("-", remote, 0)])
        status = await shell.execute(argv, out=take, err=lines.err)
        return CommandResult(shell.worker_id, status, lost=lines.complaint if status else None)

    for result in run_on_reach(reach, read):
        if result.lost or digest.hexdigest() != remote.checksum:
            why = f": {result.lost}" if result.lost else ""
            raise IntegrityError(f"the bytes received are not the bytes on the worker{why}")


def _write(write: Callable[[bytes], object], data: bytes) -> None:
    try:
        write(data)
    except BrokenPipeError:  # who reads it has seen enough
        raise
    except OSError as error:
        raise LocalIOError(f"cannot write to standard output: {error.strerror}") from error


async def _ship_sender(
    shell: Shell, root: str, files: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[str]:
    return await ship_archive(shell, ship.archive({"verb": "send", "root": root, "files": files}))


def _receiver_orders(root: str) -> dict[str, Any]:
    return {"target": root, "into": True, "names": []}


def _sent(name: str, remote: RemoteFile, offset: int) -> tuple[str, dict[str, Any]]:
    """A row of a sender's orders: the path below its root, and fields of a PackEntry."""
    return remote.path, {
        "path": name,
        "mode": remote.mode,
        "size_bytes": remote.size_bytes,
        "sha256": remote.checksum,
        "offset": offset,
    }


def list_files(reach: WorkerReach, root: str, checksum: str) -> dict[int, list[RemoteFile]]:
    """List the files that each worker has at a path; `checksum` is sha256 or crc32c.

    Raises NotFoundError, LocalIOError, TransientError.
    """
    files_by_worker: dict[int, list[RemoteFile]] = {}
    orders = ship.archive({"verb": "list", "root": root, "checksum": checksum})

    async def work(shell: Shell) -> CommandResult:
        files: list[RemoteFile] = []
        events: list[Mapping[str, Any]] = []

        def take(event: Mapping[str, Any]) -> None:
            if "file" in event:
                files.append(RemoteFile(*event["file"]))
            else:
                events.append(event)

        lines = JsonLineReader(take)
        argv = await ship_archive(shell, orders)
        status = await shell.execute(argv, out=lines.out, err=lines.err)
        _check_listed(shell.worker_id, root, events, status, lines.complaint)
        files_by_worker[shell.worker_id] = files
        return CommandResult(shell.worker_id, status)

    for result in run_on_reach(reach, work):
        if result.lost:
            raise TransientError(result.lost, hint="run it again; or run: tpuctl node list")
    return files_by_worker


def _check_listed(
    worker_id: int, root: str, events: Sequence[Mapping[str, Any]], status: int, complaint: str
) -> None:
    last = events[-1] if events else {}
    if "absent" in last:
        raise NotFoundError(f"worker {worker_id} has no {root}", hint="check the path")
    if "unreadable" in last:
        raise LocalIOError(f"worker {worker_id}: cannot read {last['unreadable']}: {last['why']}")
    if status != 0 or "listed" not in last:
        raise TransientError(f"worker {worker_id}: the list ended early: {complaint}")
