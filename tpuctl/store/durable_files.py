"""How a file becomes whole and durable: written aside, synced, renamed, its directory synced."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import google_crc32c

from tpuctl.durable_directories import sync_directory
from tpuctl.errors import LocalIOError, LockedError
from tpuctl.store.buffers import Buffers
from tpuctl.store.crc32c_base64 import crc32c, encode_crc32c
from tpuctl.store.entry import Source, blocks
from tpuctl.store.uncached import write_uncached

_PATIENCE_S = 60.0
"""A lock is held for a few writes to the disk."""
_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.02
_FILE_SYSTEM_HINT = (
    "take a directory of another file system (ext4, xfs, NFS 4), or gs://BUCKET/PREFIX"
)


class StoreLock:
    """One writer at a time over processes; the file holds the last generation given, and who."""

    def __init__(self, path: Path) -> None:
        """The file is made when it is first held."""
        self._path = path

    @contextlib.contextmanager
    def held(self) -> Iterator[int]:
        """Hold the lock and yield the descriptor of its file.

        Waits for the present holder, and raises LockedError when that one stands still.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._take(descriptor)
            try:
                yield descriptor
            finally:
                # A child forked meanwhile has the descriptor too: to close it would not do.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline_s:
                    raise self._locked(descriptor) from error
            except OSError as error:
                raise LocalIOError(
                    f"the file system of {self._path.parent} has no locks: {error.strerror}",
                    hint=_FILE_SYSTEM_HINT,
                ) from error
            else:
                os.pwrite(descriptor, os.getpid().to_bytes(8, "big"), 8)
                return
            time.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    def _locked(self, descriptor: int) -> LockedError:
        holder = int.from_bytes(os.pread(descriptor, 8, 8), "big")
        return LockedError(
            f"process {holder} has held {self._path} for {_PATIENCE_S:g} s",
            hint=f"the process or its disk hangs; run: kill -CONT {holder}, or end it",
        )


def next_generation(descriptor: int) -> int:
    """A generation that was never given before, from a lock file that is held.

    It is the time in nanoseconds, forced up when the clock does not move.
    """
    last = int.from_bytes(os.pread(descriptor, 8, 0), "big")
    given = max(time.time_ns(), last + 1)
    os.pwrite(descriptor, given.to_bytes(8, "big"), 0)
    return given


class TemporaryFiles:
    """Files being written; each is locked by its writer, so what a dead one left is removed."""

    def __init__(self, directory: Path) -> None:
        """The directory is made when a file is."""
        self._directory = directory

    def create(self) -> TemporaryFile:
        """Make one while the store's lock is held, so that nobody removes it unlocked."""
        self._directory.mkdir(exist_ok=True)
        self._sweep()
        path = self._directory / uuid.uuid4().hex
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return TemporaryFile(path, descriptor)

    def _sweep(self) -> None:
        for path in self._directory.iterdir():
            with contextlib.suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


class TemporaryFile:
    """A file that becomes an object, or nothing."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """An empty file, open for writing and locked."""
        self._path = path
        self._descriptor = descriptor

    @contextlib.contextmanager
    def open(self) -> Iterator[TemporaryFile]:
        """Yield the file to write; unless it became an object, it is removed afterwards."""
        try:
            yield self
        finally:
            os.close(self._descriptor)
            self._path.unlink(missing_ok=True)

    def write(self, data: Source) -> tuple[int, str]:
        """Write all of a source; returns its size in bytes and its checksum."""
        if isinstance(data, Buffers):
            write_uncached(self._descriptor, data.blocks())
            return data.size_bytes, data.crc32c
        size_bytes = value = 0
        for block in blocks(data):
            write_all(self._descriptor, block)
            size_bytes += len(block)
            value = google_crc32c.extend(value, block)
        return size_bytes, encode_crc32c(value)

    def settle(self, generation: int) -> None:
        """Give it its generation as its modification time, and make all of it durable."""
        os.utime(self._descriptor, ns=(generation, generation))
        if os.fstat(self._descriptor).st_mtime_ns != generation:
            raise LocalIOError(
                f"the file system of {self._path.parent} does not keep times to the nanosecond",
                hint=_FILE_SYSTEM_HINT,
            )
        os.fsync(self._descriptor)

    def become(self, path: Path) -> None:
        """Take the place of a path, durably, once it is settled."""
        self._path.replace(path)
        sync_directory(path.parent)


class ChecksumFiles:
    """For each key the generation and the checksum it was written with."""

    def __init__(self, directory: Path) -> None:
        """A directory of small files with hashed names."""
        self._directory = directory

    def write(self, key: str, generation: int, value: str) -> None:
        """Keep a checksum; called before its object is written: a crash leaves it unused.

        A file has its own checksum as well: a bit of it that flips says nothing of the object.
        """
        self._directory.mkdir(exist_ok=True)
        text = f"{generation} {value}"
        self._path(key).write_text(f"{text} {crc32c(text.encode())}", "ascii")

    def read(self, key: str, generation: int) -> str | None:
        """The checksum of that generation, when it was written by a store."""
        try:
            with open(self._path(key), "rb", buffering=0) as file:  # noqa: PTH123 (see _path)
                text, _, own = file.read().decode("ascii").rpartition(" ")
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            return None
        written, _, value = text.partition(" ")
        return value if written == str(generation) and own == crc32c(text.encode()) else None

    def forget(self, key: str) -> None:
        """Remove what is remembered of a key."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._directory / hashlib.sha256(key.encode()).hexdigest()


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes at the file's position."""
    view = memoryview(data)
    while view.nbytes:
        view = view[os.write(descriptor, view) :]


def read_at(descriptor: int, start: int, buffer: memoryview) -> int:
    """Fill a buffer from a position in a file; returns how many bytes there were."""
    filled = 0
    while filled < buffer.nbytes:
        count = os.preadv(descriptor, [buffer[filled:]], start + filled)
        if not count:
            break
        filled += count
    return filled


def remove(path: Path, *, within: Path) -> None:
    """Unlink a file and the directories that became empty; what is gone stays gone."""
    path.unlink()
    sync_directory(path.parent)
    with contextlib.suppress(OSError):
        for directory in path.parents:
            if directory == within:
                return
            directory.rmdir()
