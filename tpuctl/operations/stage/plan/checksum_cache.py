"""The checksums of files that were read before, so that a second sync need not read them again.

A row is believed while the file's device, inode, size and times are the ones it was read with. A
file that had changed within two seconds of being read gets none: a later change could bear the same
time.
It is a cache: when it is damaged, locked or removed, files are read again and nothing is printed.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import google_crc32c

from tpuctl.durable_directories import make_private
from tpuctl.errors import IntegrityError
from tpuctl.models.transfer import FileIdentity

BLOCK_BYTES = 256 * 1024
MAX_FILE_BYTES = 512 * 1024 * 1024
"""The cache begins again when it is larger: about four million files."""
SETTLED_NS = 2_000_000_000
_WRITTEN_AT_ONCE = 10_000
_PATIENCE_S = 1.0
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS checksums_1 (
        device INTEGER, inode INTEGER, size_bytes INTEGER, mtime_ns INTEGER, ctime_ns INTEGER,
        crc32c INTEGER, PRIMARY KEY (device, inode)) WITHOUT ROWID
"""
_FIND = "SELECT * FROM checksums_1 WHERE device = ? AND inode IN"
_WRITE = "INSERT OR REPLACE INTO checksums_1 VALUES (?, ?, ?, ?, ?, ?)"


class ChecksumCache:
    """The CRC32C of files, kept below a directory; with None as directory nothing is kept."""

    def __init__(self, directory: Path | None, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._now_ns = now_ns
        self._new: list[tuple[int, ...]] = []
        self._expected: dict[tuple[int, ...], int] = {}
        self._asked: set[tuple[int, ...]] = set()
        self._connection: sqlite3.Connection | None = None
        self._path = directory / "checksums.sqlite" if directory else None
        with self._forgiving():
            self._open()

    def expect(self, identities: Iterable[FileIdentity]) -> None:
        """Read the rows of files in one query, for the calls of `of` that follow."""
        self._expected.clear()
        self._asked.clear()
        if self._connection is None:
            return
        by_device: dict[int, list[int]] = {}
        for identity in identities:
            self._asked.add(identity[:2])
            by_device.setdefault(identity.device, []).append(identity.inode)
        with self._forgiving():
            for device, inodes in by_device.items():
                marks = ",".join("?" * len(inodes))
                rows = self._connection.execute(f"{_FIND} ({marks})", (device, *inodes))
                self._expected.update((row[:5], row[5]) for row in rows)

    def of(self, path: str, identity: FileIdentity) -> int:
        """The CRC32C of a file, from the cache or by reading it.

        Raises IntegrityError when the file is not the one of that identity, OSError.
        """
        if identity[:2] not in self._asked:
            self.expect((identity,))
        known = self._expected.get(identity)
        if known is not None:
            return known
        began_ns = self._now_ns()
        with open_checked(path, identity) as descriptor:
            value = checksum(descriptor, 0, identity.size_bytes)
            check_unchanged(descriptor, identity, path)
        if began_ns - max(identity.mtime_ns, identity.ctime_ns) > SETTLED_NS:
            self._new.append((*identity, value))
            if len(self._new) >= _WRITTEN_AT_ONCE:
                self._write()
        return value

    def close(self) -> None:
        """Write the checksums that were computed to the cache, and close it."""
        self._write()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> None:
        if self._path is None:
            return
        make_private(self._path.parent)
        if self._path.exists() and self._path.stat().st_size > MAX_FILE_BYTES:
            self._discard()
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(self._path, timeout=_PATIENCE_S)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(_SCHEMA)

    def _write(self) -> None:
        if self._connection is not None and self._new:
            with self._forgiving(), self._connection:
                self._connection.executemany(_WRITE, self._new)
        self._new.clear()

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        """Close the cache when the block fails on it; delete one that is not a database."""
        try:
            yield
        except (sqlite3.OperationalError, OSError, OverflowError):
            self._leave()
        except sqlite3.DatabaseError:
            self._leave()
            self._discard()

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _discard(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                os.unlink(f"{self._path}{suffix}")  # noqa: PTH108


@contextlib.contextmanager
def open_checked(path: str, identity: FileIdentity) -> Iterator[int]:
    """Open the file that a plan saw, and yield its descriptor.

    Raises IntegrityError when the file has changed or is another one, OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        check_unchanged(descriptor, identity, path)
        yield descriptor
    finally:
        os.close(descriptor)


def check_unchanged(descriptor: int, identity: FileIdentity, path: str) -> None:
    """Raise IntegrityError when an open file is not the one of that identity any more."""
    if not FileIdentity.of(os.fstat(descriptor)).holds_what(identity):
        raise IntegrityError(f"{path} changed while it was read")


def read_blocks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from start up to, not including, end; fewer when the file is shorter."""
    while start < end and (block := os.pread(descriptor, min(BLOCK_BYTES, end - start), start)):
        start += len(block)
        yield block


def checksum(descriptor: int, start: int, end: int) -> int:
    """The CRC32C of a range of a file."""
    value = 0
    for block in read_blocks(descriptor, start, end):
        value = google_crc32c.extend(value, block)
    return value
