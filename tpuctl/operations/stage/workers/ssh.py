"""Files to and from one worker through its SSH connection, equal by SHA-256 at both ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuctl.errors import IntegrityError, LocalIOError, NotFoundError, TransientError
from tpuctl.models.delivery import Delivery, DeliveryState, Meter
from tpuctl.models.operation import CommandResult
from tpuctl.operations.remote import fanout
from tpuctl.operations.remote.shipping import (
    JsonLineReader,
    ShippingShell,
    build_archive,
    ship_archive,
)
from tpuctl.operations.stage.workers.staging import WorkerReach

BLOCK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file of this machine, and its path below the target."""

    path: str
    source: Path
    size_bytes: int
    sha256: str
    mode: int


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a worker, and its path below what was asked for ('' for that itself)."""

    path: str
    size_bytes: int
    checksum: str
    mode: int


def outgoing_file(path: str, source: Path) -> OutgoingFile:
    """A file as it is now. Raises OSError."""
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        found = os.fstat(file.fileno())
    return OutgoingFile(path, source, found.st_size, digest, found.st_mode & 0o777)


def send_files(
    reach: WorkerReach, files: Sequence[OutgoingFile], root: str, meter: Meter
) -> list[Delivery]:
    """Send what is not on the workers yet."""
    rows = [(one.path, one.size_bytes, one.sha256, one.mode) for one in files]
    orders = build_archive({"verb": "receive", "target": root, "files": rows})
    found: dict[int, Delivery] = {}

    async def work(shell: ShippingShell) -> CommandResult:
        sending = FileSender(files, meter)
        lines = JsonLineReader(sending.take)
        argv = await ship_archive(shell, orders)
        status = await shell.converse(argv, stdin=sending.blocks(), out=lines.out, err=lines.err)
        found[shell.worker_id] = sending.verdict(shell.worker_id, status, lines.complaint)
        return CommandResult(shell.worker_id, status)

    for each in run_on_reach(reach, work):
        if each.lost:
            found[each.worker_id] = Delivery(
                each.worker_id, state=DeliveryState.LOST, error=each.lost_because
            )
    return [found[worker.worker_id] for worker in reach.workers]


class FileSender:
    """The bytes that a worker says it lacks, in the order it says."""

    def __init__(self, files: Sequence[OutgoingFile], meter: Meter) -> None:
        self._files = files
        self._meter = meter
        self._needed: asyncio.Future[list[tuple[int, int]]] = asyncio.Future()
        self._taken: set[str] = set()
        self._failures: list[tuple[str, str]] = []

    def take(self, event: Mapping[str, Any]) -> None:
        """What the worker said."""
        if "need" in event:
            needed = [(int(index), int(offset)) for index, offset in event["need"]]
            self._needed.set_result(needed)
            self._skip(dict(needed))
        if "taken" in event:
            self._taken.add(str(event["taken"]))
            self._meter.finished()
        if "failed" in event:
            self._failures.append((str(event["failed"]), str(event["why"])))

    def _skip(self, needed: Mapping[int, int]) -> None:
        """What is on the worker already counts as done."""
        for index, file in enumerate(self._files):
            self._meter.advance(needed.get(index, file.size_bytes))
            if index not in needed:
                self._meter.finished()

    async def blocks(self) -> AsyncIterator[bytes]:
        """Every byte that is needed."""
        for index, offset in await self._needed:
            file = self._files[index]
            left = file.size_bytes - offset
            for block in _read(file.source, offset, left):
                yield block
                left -= len(block)
                self._meter.advance(len(block))
            if left:  # the worker hears the end of the stream, and leaves what it has
                raise IntegrityError(f"{file.source} changed while it was read")

    def verdict(self, worker_id: int, status: int, complaint: str) -> Delivery:
        """How it ended."""
        error = None
        if self._failures:
            name, why = self._failures[0]
            error = f"{name}: {why}"
        elif status != 0 or not self._needed.done():
            error = f"the receiver ended with exit status {status}: {complaint}"
        needed = self._needed.result() if self._needed.done() else []
        sent = [self._files[index] for index, _ in needed]
        arrived = [one for one in sent if one.path in self._taken]
        return Delivery(
            worker_id,
            state=DeliveryState.FAILED if error else DeliveryState.DONE,
            objects_copied=len(arrived),
            bytes_copied=sum(one.size_bytes for one in arrived),
            objects_skipped=len(self._files) - len(sent) - len(self._refused(sent)),
            failures=tuple(self._failures),
            error=error,
        )

    def _refused(self, sent: Sequence[OutgoingFile]) -> list[tuple[str, str]]:
        names = {one.path for one in sent}
        return [failure for failure in self._failures if failure[0] not in names]


def _read(path: Path, offset: int, size_bytes: int) -> Iterator[bytes]:
    """A part of a file, or what there is of it. Raises LocalIOError."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            while size_bytes and (block := file.read(min(BLOCK_BYTES, size_bytes))):
                yield block
                size_bytes -= len(block)
    except OSError as error:
        raise LocalIOError(f"cannot read {path}: {error.strerror}") from error


def list_files(reach: WorkerReach, root: str, checksum: str) -> dict[int, list[RemoteFile]]:
    """What every worker has at a path; `checksum` is sha256 or crc32c.

    Raises NotFoundError, LocalIOError, TransientError.
    """
    found: dict[int, list[RemoteFile]] = {}
    orders = build_archive({"verb": "list", "root": root, "checksum": checksum})

    async def work(shell: ShippingShell) -> CommandResult:
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
        found[shell.worker_id] = files
        return CommandResult(shell.worker_id, status)

    for each in run_on_reach(reach, work):
        if each.lost:
            raise TransientError(each.lost, hint="run it again; or look: tpuctl node list")
    return found


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


def run_on_reach(reach: WorkerReach, work: Callable[[Any], Any]) -> list[CommandResult]:
    """Do the work on every worker of a reach."""
    return asyncio.run(
        fanout.run_on_workers(reach.api, reach.node, reach.workers, reach.access, work)
    )
