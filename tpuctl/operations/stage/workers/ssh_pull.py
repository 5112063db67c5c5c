"""Files of workers to this machine through SSH: written aside, verified, synced, renamed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tpuctl.errors import IntegrityError, LocalIOError, LockedError
from tpuctl.models.delivery import Delivery, DeliveryState, Meter
from tpuctl.models.operation import CommandResult
from tpuctl.operations.remote.shipping import (
    JsonLineReader,
    ShippingShell,
    build_archive,
    ship_archive,
)
from tpuctl.operations.stage.plan.checksum_cache import read_blocks
from tpuctl.operations.stage.plan.names import why_no_file
from tpuctl.operations.stage.transfer.atomic_files import TargetDirectory, UnfinishedFile
from tpuctl.operations.stage.workers.ssh_push import RemoteFile, run_on_reach
from tpuctl.operations.stage.workers.staging import WorkerReach

RESUMED_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """A file of a worker and its name below the target; `offset`: what an earlier run left."""

    remote: RemoteFile
    name: str
    offset: int = 0
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class WorkerPullPlan:
    """What is fetched of one worker, and what is refused."""

    incoming: tuple[IncomingFile, ...]
    refusals: tuple[tuple[str, str], ...]

    @property
    def to_fetch(self) -> tuple[IncomingFile, ...]:
        """What is not here yet."""
        return tuple(one for one in self.incoming if not one.is_current)


def plan_worker_pull(
    files: Sequence[RemoteFile], target: TargetDirectory, single_name: str
) -> WorkerPullPlan:
    """Where each file goes; `single_name` is for what was asked for itself."""
    incoming, refusals = [], []
    for one in files:
        name = one.path or single_name
        why = why_no_file(name)
        try:
            if why is None:
                incoming.append(_incoming(one, target, name))
        except (LocalIOError, LockedError) as error:
            why = str(error)
        if why is not None:
            refusals.append((name, why))
    return WorkerPullPlan(tuple(incoming), tuple(refusals))


def fetch_files(
    reach: WorkerReach,
    root: str,
    plans: Mapping[int, tuple[TargetDirectory, WorkerPullPlan]],
    meter: Meter,
) -> list[Delivery]:
    """Fetch what is not here yet; a worker that fails stops no other."""
    found: dict[int, Delivery] = {}

    async def work(shell: ShippingShell) -> CommandResult:
        target, planned = plans[shell.worker_id]
        with FilesWriter(target, planned.to_fetch, meter) as sink:
            status, complaint = await _stream(shell, root, planned.to_fetch, sink)
        target.sync()
        found[shell.worker_id] = _delivery(shell.worker_id, planned, sink, status, complaint)
        return CommandResult(shell.worker_id, status)

    for each in run_on_reach(reach, work):
        if each.lost:
            lost, why = DeliveryState.LOST, each.lost_because
            found[each.worker_id] = Delivery(each.worker_id, state=lost, error=why)
    return [found[worker.worker_id] for worker in reach.workers]


def read_file(
    reach: WorkerReach, root: str, remote: RemoteFile, write: Callable[[bytes], object]
) -> None:
    """Give one file's bytes to `write`. Raises IntegrityError, TransientError."""
    digest = hashlib.sha256()

    class Tee:
        def feed(self, data: bytes) -> None:
            try:
                write(data)
            except BrokenPipeError:  # who reads it has seen enough
                raise
            except OSError as error:
                raise LocalIOError(f"cannot write to standard output: {error.strerror}") from error
            digest.update(data)

    async def work(shell: ShippingShell) -> CommandResult:
        status, complaint = await _stream(shell, root, (IncomingFile(remote, ""),), Tee())
        return CommandResult(shell.worker_id, status, lost=complaint if status else None)

    for each in run_on_reach(reach, work):
        if each.lost or digest.hexdigest() != remote.checksum:
            why = f": {each.lost}" if each.lost else ""
            raise IntegrityError(f"the bytes received are not the bytes on the worker{why}")


class ByteSink(Protocol):
    """Takes the bytes of one file after the other."""

    def feed(self, data: bytes) -> None:
        """The next bytes of the stream."""


class FilesWriter:
    """Several files, one after the other."""

    def __init__(
        self, target: TargetDirectory, wanted: Sequence[IncomingFile], meter: Meter
    ) -> None:
        self.finished: list[IncomingFile] = []
        self.failures: list[tuple[str, str]] = []
        self._target = target
        self._waiting = iter(wanted)
        self._meter = meter
        self._current: IncomingFile | None = None
        self._file: UnfinishedFile | None = None
        self._digest = hashlib.sha256()
        self._reached = 0

    def __enter__(self) -> FilesWriter:
        self._next()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._file is not None:
            self._file.close()  # what it holds stays for the next run

    def feed(self, data: bytes) -> None:
        """The next bytes, of one file or of several. Raises LocalIOError."""
        self._meter.advance(len(data))
        view = memoryview(data)
        while view and self._current is not None and self._file is not None:
            piece = view[: self._current.remote.size_bytes - self._reached]
            self._file.write_at(bytes(piece), self._reached)
            self._digest.update(piece)
            self._reached += len(piece)
            view = view[len(piece) :]
            if self._reached == self._current.remote.size_bytes:
                self._publish(self._current, self._file)
                self._next()

    def _next(self) -> None:
        """Open the next file that lacks bytes; those that lack none are whole already."""
        self._current = self._file = None
        for one in self._waiting:
            self._current, self._file = one, self._opened(one)
            if self._reached < one.remote.size_bytes:
                return
            self._publish(one, self._file)
            self._current = self._file = None

    def _opened(self, one: IncomingFile) -> UnfinishedFile:
        file = UnfinishedFile(self._target, one.name, one.remote.checksum[:24])
        file.cut(one.offset)
        self._digest, self._reached = hashlib.sha256(), one.offset
        for block in read_blocks(file.descriptor, 0, one.offset):
            self._digest.update(block)
        return file

    def _publish(self, one: IncomingFile, file: UnfinishedFile) -> None:
        """A file that is whole is verified and gets its name; what is wrong is refused by name."""
        if self._digest.hexdigest() == one.remote.checksum:
            os.fchmod(file.descriptor, 0o600 | (one.remote.mode & ~_umask()))
            file.become()
            self.finished.append(one)
        else:
            file.discard()
            self.failures.append((one.name, "the bytes received are not the worker's"))
        file.close()
        self._meter.finished()


async def _stream(
    shell: ShippingShell, root: str, wanted: Sequence[IncomingFile], sink: ByteSink
) -> tuple[int, str]:
    rows = [(one.remote.path, one.offset, one.remote.size_bytes) for one in wanted]
    lines = JsonLineReader(lambda _event: None)
    argv = await ship_archive(shell, build_archive({"verb": "send", "root": root, "files": rows}))
    status = await shell.execute(argv, out=sink.feed, err=lines.err)
    return status, lines.complaint


def _delivery(
    worker_id: int, planned: WorkerPullPlan, sink: FilesWriter, status: int, complaint: str
) -> Delivery:
    failures = [*planned.refusals, *sink.failures]
    error = f"{failures[0][0]}: {failures[0][1]}" if failures else None
    if status != 0:
        error = f"the sender ended with exit status {status}: {complaint}"
    elif len(sink.finished) + len(sink.failures) < len(planned.to_fetch):
        error = error or "the stream ended early"
    return Delivery(
        worker_id,
        state=DeliveryState.FAILED if error else DeliveryState.DONE,
        objects_copied=len(sink.finished),
        bytes_copied=sum(one.remote.size_bytes for one in sink.finished),
        objects_skipped=len(planned.incoming) - len(planned.to_fetch),
        failures=tuple(failures),
        error=error,
    )


def _incoming(remote: RemoteFile, target: TargetDirectory, name: str) -> IncomingFile:
    """What is here of a file already. Raises LocalIOError."""
    directory, _, base = name.rpartition("/")
    try:
        with target.directory(directory, create=True) as parent:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(base, flags, dir_fd=parent), "rb") as file:
                is_as_long = os.fstat(file.fileno()).st_size == remote.size_bytes
                digest = hashlib.file_digest(file, "sha256") if is_as_long else hashlib.sha256()
    except FileNotFoundError:
        return IncomingFile(remote, name, offset=_resume_offset(remote, target, name))
    except OSError as error:
        raise LocalIOError(f"cannot write {name}: {error.strerror}") from error
    return IncomingFile(
        remote, name, is_current=digest.hexdigest() == remote.checksum and is_as_long
    )


def _resume_offset(remote: RemoteFile, target: TargetDirectory, name: str) -> int:
    """How much an earlier run left; of what is sent in a moment nobody needs to know."""
    if remote.size_bytes <= RESUMED_BYTES:
        return 0
    file = UnfinishedFile(target, name, remote.checksum[:24])
    try:
        return min(os.fstat(file.descriptor).st_size, remote.size_bytes)
    finally:
        file.close()


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
