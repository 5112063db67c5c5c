"""A directory as a store: every object a file, whole or absent, replaced under a lock.

Beside the objects lies `.tpuctl-store`: the lock, which holds the last generation given; files
being written; and for each object the checksum it was written with. A file put there by other
means is an object too; its checksum is taken when somebody asks for it alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from tpuctl.durable_directories import make_durable
from tpuctl.errors import (
    IntegrityError,
    LocalIOError,
    NotFoundError,
    PreconditionError,
    RefusedError,
)
from tpuctl.store.crc32c_base64 import crc32c
from tpuctl.store.durable_files import (
    ChecksumFiles,
    StoreLock,
    TemporaryFiles,
    next_generation,
    read_at,
    remove,
)
from tpuctl.store.entry import Entry, Source, measure_source

PRIVATE = ".tpuctl-store"
_KNOWN_PATHS = 64
_UNREADABLE = {errno.EIO, errno.EBADMSG, errno.ENODATA, getattr(errno, "EUCLEAN", errno.EIO)}
"""What Linux says of a bad sector, or of one that its file system knows to be damaged."""


class DirectoryStore:
    """Objects as files below one directory, made when the first is put."""

    def __init__(self, path: str) -> None:
        """Nothing is read or written yet."""
        self._root = Path(path).resolve()
        private = self._root / PRIVATE
        self._lock = StoreLock(private / "lock")
        self._temporaries = TemporaryFiles(private / "writing")
        self._checksums = ChecksumFiles(private / "crc32c")
        # To resolve a path takes as long as to read 256 KiB, and a file is read in many pieces.
        self._known_path = lru_cache(_KNOWN_PATHS)(self._path)

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
        with _translate_errors(key):
            make_durable(self._root)
            with self._lock.held() as descriptor:
                # Looked at twice, so that what must fail does so before its bytes are written.
                self._check(key, path, generation)
                given = next_generation(descriptor)
                temporary = self._temporaries.create()
            with temporary.open() as file:
                # All that takes long is done without the lock: several are written at once.
                size_bytes, value = file.write(data)
                file.settle(given)
                with self._lock.held():
                    self._check(key, path, generation)
                    self._checksums.write(key, given, value)
                    make_durable(path.parent)
                    file.become(path)
        return Entry(key, size_bytes, given, value, given / 1e9)

    def get_range(
        self, key: str, start: int = 0, end: int | None = None, *, generation: int | None = None
    ) -> bytes:
        """Bytes from start up to, not including, end; NotFoundError. A whole read is verified."""
        with _report_damage(key), self._open(key) as file:
            found = os.fstat(file.fileno()).st_mtime_ns
            if generation not in (None, found):
                raise NotFoundError(f"{self.url}/{key} has no generation {generation}")
            file.seek(start)
            data = file.read() if end is None else file.read(max(0, end - start))
        written = self._checksums.read(key, found) if start == 0 and end is None else None
        if written is not None and written != crc32c(data):
            raise IntegrityError(f"{self.url}/{key} is not what was written: its crc32c differs")
        return data

    def read_into(self, key: str, start: int, buffer: memoryview, *, generation: int) -> None:
        """Fill a buffer with the bytes from start on of that generation, unverified.

        NotFoundError without it; IntegrityError when it ends before the buffer does.
        """
        with _report_damage(key), self._open(key, self._known_path(key)) as file:
            if os.fstat(file.fileno()).st_mtime_ns != generation:
                raise NotFoundError(f"{self.url}/{key} has no generation {generation}")
            filled = read_at(file.fileno(), start, buffer)
        if filled < buffer.nbytes:
            raise IntegrityError(f"{self.url}/{key} ends at byte {start + filled}")

    def head(self, key: str) -> Entry | None:
        """What is known of an object, or None; a checksum that nobody has taken is taken now."""
        try:
            with _translate_errors(key), self._open(key) as file:
                found = self._entry(key, os.fstat(file.fileno()))
                return found if found.crc32c else replace(found, crc32c=measure_source(file)[1])
        except NotFoundError:
            return None

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Every object whose key starts with the prefix, in the order of keys.

        The checksum of a file put there by other means is "": a list must not read whole files.
        """
        with _translate_errors(prefix):
            for key in sorted(self._keys(prefix)):
                # What vanished since is not an object any more; a link never was one.
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    status = os.lstat(f"{self._root}/{key}")  # noqa: PTH116 (a Path takes longer)
                    if stat.S_ISREG(status.st_mode):
                        yield self._entry(key, status)

    def delete(self, key: str, *, generation: int | None = None) -> bool:
        """Remove an object; False when there was none, PreconditionError when it changed."""
        path = self._path(key)
        if not self._root.is_dir():
            return False
        with _translate_errors(key), self._lock.held():
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
        if _has_link(str(self._root), parts):
            path = self._root.joinpath(*parts)
            if not path.resolve().is_relative_to(self._root):
                raise RefusedError(f"{key!r} would leave {self._root}")
        return self._root / key

    def _open(self, key: str, path: Path | None = None) -> BinaryIO:
        try:
            return (path or self._path(key)).open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise NotFoundError(f"there is no {self.url}/{key}") from error

    def _check(self, key: str, path: Path, generation: int) -> None:
        found = path.stat().st_mtime_ns if path.is_file() else 0
        if found != generation:
            wanted = f"generation {generation}" if generation else "nothing"
            has = f"generation {found}" if found else "nothing"
            raise PreconditionError(f"{self.url}/{key} holds {has}, not {wanted}")

    def _entry(self, key: str, status: os.stat_result) -> Entry:
        generation = status.st_mtime_ns
        value = self._checksums.read(key, generation) or ""
        return Entry(key, status.st_size, generation, value, generation / 1e9)

    def _keys(self, prefix: str) -> Iterator[str]:
        start = self._root / prefix.rpartition("/")[0]
        if not start.resolve().is_relative_to(self._root):
            raise RefusedError(f"{prefix!r} would leave {self._root}")
        root = str(self._root)
        for directory, below, names in os.walk(start):
            if directory == root and PRIVATE in below:
                below.remove(PRIVATE)
            folder = f"{directory}/".removeprefix(root).lstrip("/")
            yield from (key for name in names if (key := f"{folder}{name}").startswith(prefix))


def _has_link(root: str, parts: Sequence[str]) -> bool:
    """Whether a part of a path below a directory is a symbolic link; what is not there is none."""
    path = root
    for part in parts:
        path = f"{path}/{part}"
        try:
            if stat.S_ISLNK(os.lstat(path).st_mode):  # noqa: PTH116 (a Path takes longer)
                return True
        except OSError:  # whoever opens it says why
            return False
    return False


@contextlib.contextmanager
def _translate_errors(key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LocalIOError(f"{key}: {error.strerror or error}") from error


@contextlib.contextmanager
def _report_damage(key: str) -> Iterator[None]:
    """Raise IntegrityError for an object that the disk cannot read any more."""
    with _translate_errors(key):
        try:
            yield
        except OSError as error:
            if error.errno not in _UNREADABLE:
                raise
            raise IntegrityError(f"{key}: {error.strerror}") from error
