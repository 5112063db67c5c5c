"""A directory as a store: every object a file, whole or absent, replaced under a lock.

Beside the objects lies `.tpuctl-store`: the lock, which holds the last generation given; files
being written; and for each object the checksum it was written with. A file put there by other
means is an object too; its checksum is that of its bytes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tpuctl.errors import (
    IntegrityError,
    LocalIOError,
    NotFoundError,
    PreconditionError,
    RefusedError,
)
from tpuctl.store.entry import Entry, Source, crc32c, measured
from tpuctl.store.files import Checksums, Lock, Temporaries, checksum, make_durable, remove

PRIVATE = ".tpuctl-store"


class DirectoryStore:
    """Objects as files below one directory, made when the first is put."""

    def __init__(self, path: str) -> None:
        """Nothing is read or written yet."""
        self._root = Path(path).resolve()
        private = self._root / PRIVATE
        self._lock = Lock(private / "lock")
        self._temporaries = Temporaries(private / "writing")
        self._checksums = Checksums(private / "crc32c")

    @property
    def url(self) -> str:
        """The directory's absolute path."""
        return str(self._root)

    def put_if_absent(self, key: str, data: Source) -> Entry:
        """Create an object; PreconditionError when it exists."""
        return self.put_if_generation(key, data, 0)

    def put_if_generation(self, key: str, data: Source, generation: int) -> Entry:
        """Replace that generation (0: nothing); PreconditionError when it is another."""
        path = self._path(key)
        with _translated(key):
            size_bytes, value = measured(data)
            make_durable(self._root)
            with self._lock.held():
                # Looked at twice, so that what must fail does so before its bytes are written.
                self._check(key, path, generation)
                temporary = self._temporaries.create()
            with temporary.open(data) as file, self._lock.held() as last:
                self._check(key, path, generation)
                given = last.next(file)
                self._checksums.write(key, given, value)
                make_durable(path.parent)
                temporary.become(path)
        return Entry(key, size_bytes, given, value, given / 1e9)

    def get_range(
        self, key: str, start: int = 0, end: int | None = None, *, generation: int | None = None
    ) -> bytes:
        """Bytes from start up to, not including, end; NotFoundError. A whole read is verified."""
        with _translated(key), self._open(key) as file:
            found = os.fstat(file.fileno()).st_mtime_ns
            if generation not in (None, found):
                raise NotFoundError(f"{self.url}/{key} has no generation {generation}")
            file.seek(start)
            data = file.read() if end is None else file.read(max(0, end - start))
        written = self._checksums.read(key, found) if start == 0 and end is None else None
        if written is not None and written != crc32c(data):
            raise IntegrityError(f"{self.url}/{key} is not what was written: its crc32c differs")
        return data

    def head(self, key: str) -> Entry | None:
        """What is known of an object, or None."""
        try:
            with _translated(key), self._open(key) as file:
                return self._entry(key, file)
        except NotFoundError:
            return None

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Every object whose key starts with the prefix, in the order of keys."""
        with _translated(prefix):
            for key in sorted(self._keys(prefix)):
                # What vanished since it was listed is no object any more.
                if (entry := self.head(key)) is not None:
                    yield entry

    def delete(self, key: str, *, generation: int | None = None) -> bool:
        """Remove an object; False when there was none, PreconditionError when it changed."""
        path = self._path(key)
        if not self._root.is_dir():
            return False
        with _translated(key), self._lock.held():
            if not path.is_file():
                return False
            if generation is not None:
                self._check(key, path, generation)
            remove(path, within=self._root)
            self._checksums.forget(key)
            return True

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if parts[0] == PRIVATE or "\0" in key or any(part in ("", ".", "..") for part in parts):
            raise RefusedError(f"{key!r} cannot be the name of an object in a directory")
        path = self._root.joinpath(*parts)
        if not path.resolve().is_relative_to(self._root):
            raise RefusedError(f"{key!r} would leave {self._root}")
        return path

    def _open(self, key: str) -> BinaryIO:
        try:
            return self._path(key).open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise NotFoundError(f"there is no {self.url}/{key}") from error

    def _check(self, key: str, path: Path, generation: int) -> None:
        found = path.stat().st_mtime_ns if path.is_file() else 0
        if found != generation:
            wanted = f"generation {generation}" if generation else "nothing"
            has = f"generation {found}" if found else "nothing"
            raise PreconditionError(f"{self.url}/{key} holds {has}, not {wanted}")

    def _entry(self, key: str, file: BinaryIO) -> Entry:
        status = os.fstat(file.fileno())
        generation = status.st_mtime_ns
        value = self._checksums.read(key, generation) or checksum(file)
        return Entry(key, status.st_size, generation, value, generation / 1e9)

    def _keys(self, prefix: str) -> Iterator[str]:
        start = self._root / prefix.rpartition("/")[0]
        if not start.resolve().is_relative_to(self._root):
            raise RefusedError(f"{prefix!r} would leave {self._root}")
        for directory, below, names in os.walk(start):
            if Path(directory) == self._root and PRIVATE in below:
                below.remove(PRIVATE)
            for name in names:
                key = Path(directory, name).relative_to(self._root).as_posix()
                if key.startswith(prefix):
                    yield key


@contextlib.contextmanager
def _translated(key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LocalIOError(f"{key}: {error.strerror or error}") from error
