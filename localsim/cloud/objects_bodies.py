"""Where the bytes of objects lie: received in `incoming`, kept in `objects` under random names."""

import errno
import io
import os
import secrets
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from localsim.cloud.objects_model import (
    Hashes,
    StorageError,
    encode_crc32c,
    encode_md5,
    extend_crc32c,
    invalid,
)

INLINE_BYTES = 128 * 1024
MD5_BYTES = 8 * 1024 * 1024  # what google-cloud-storage sends in one request; MD5 halves the speed

_synchronize = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


@dataclass(frozen=True, slots=True)
class Body:
    """Received, checked bytes: small ones as `data`, others durable in the file named `file`."""

    size_bytes: int
    crc32c: str
    md5: str | None
    data: bytes | None = None
    file: str | None = None


class IncomingBody:
    """Bytes on their way in, summed as they come: in memory while small, then in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        self.crc32c = 0
        self.memory = bytearray()
        self._file: BinaryIO | None = None

    @property
    def is_on_disk(self) -> bool:
        """Whether sealing it will block on the disk."""
        return self._file is not None

    def create(self) -> None:
        """Start the file now: what is received so far moves into it."""
        with disk_errors():
            self._file = self.path.open("xb", buffering=0)
            _write_all(self._file, self.memory)
            self.memory = bytearray()

    def resume(self, size_bytes: int, crc32c: int) -> None:
        """Continue a file whose first `size_bytes` are known to be good."""
        with disk_errors():
            self._file = self.path.open("r+b", buffering=0)
            self._file.truncate(size_bytes)
            self._file.seek(size_bytes)
        self.size_bytes, self.crc32c = size_bytes, crc32c

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._file is None and self.size_bytes + len(data) > INLINE_BYTES:
            self.create()
        if self._file is None:
            self.memory += data
        else:
            with disk_errors():
                _write_all(self._file, data)
        self.crc32c = extend_crc32c(self.crc32c, data)
        self.size_bytes += len(data)

    def sync(self) -> None:
        """Make what was written durable; blocks."""
        if self._file is not None:
            with disk_errors():
                _synchronize(self._file.fileno())

    def close(self) -> None:
        """Let go of the file, which stays."""
        if self._file is not None:
            self._file.close()

    def discard(self) -> None:
        """Let go of the file and remove it, unless it has been sealed."""
        self.close()
        self.path.unlink(missing_ok=True)


class BodyDirectory:
    """The files of one store; no name in it was ever chosen by a client."""

    def __init__(self, directory: Path) -> None:
        self._incoming = directory / "incoming"
        self._objects = directory / "objects"
        for folder in (directory, self._incoming, self._objects):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def receive(self, name: str | None = None) -> IncomingBody:
        """Begin to receive a body under a given or a random name."""
        return IncomingBody(self._incoming / (name or secrets.token_hex(16)))

    def create(self, name: str) -> None:
        """Make an empty incoming body that is still there after a crash."""
        body = self.receive(name)
        body.create()
        body.close()
        with disk_errors():
            _sync_directory(self._incoming)

    def seal(self, incoming: IncomingBody, expected: Hashes) -> Body:
        """Check the hashes and make the body durable under its final name; blocks when on disk."""
        crc32c, md5 = _checked_hashes(incoming, expected)
        if not incoming.is_on_disk:
            return Body(incoming.size_bytes, crc32c, md5, data=bytes(incoming.memory))
        incoming.sync()
        incoming.close()
        self._rename(incoming.path)
        return Body(incoming.size_bytes, crc32c, md5, file=incoming.path.name)

    def _rename(self, path: Path) -> None:
        target = self._path(path.name)
        with disk_errors():
            if not target.parent.is_dir():
                target.parent.mkdir(mode=0o700, exist_ok=True)
                _sync_directory(self._objects)
            path.rename(target)
            _sync_directory(target.parent)

    def require(self, body: Body) -> None:
        """Refuse to publish a body whose file a reset has swept away in the meantime."""
        if body.file is not None and not self._path(body.file).exists():
            raise StorageError(503, "backendError", "localsim was reset during this upload.")

    def open(self, file: str) -> BinaryIO:
        """Open a kept body; it can be read on after `remove`."""
        return self._path(file).open("rb")

    def remove(self, file: str | None) -> None:
        """Remove a kept body, if there is one."""
        if file is not None:
            self._path(file).unlink(missing_ok=True)

    def sweep(self, *, kept: Set[str], unfinished: Set[str]) -> None:
        """Remove what a killed server left; bytes of an `unfinished` upload go back to incoming."""
        for path in self._objects.glob("*/*"):
            if path.name in unfinished:
                path.rename(self._incoming / path.name)
            elif path.name not in kept:
                path.unlink()
        for path in self._incoming.iterdir():
            if path.name not in unfinished:
                path.unlink()

    def _path(self, file: str) -> Path:
        return self._objects / file[:2] / file


def _checked_hashes(incoming: IncomingBody, expected: Hashes) -> tuple[str, str | None]:
    crc32c = encode_crc32c(incoming.crc32c)
    if expected.crc32c not in (None, crc32c):
        raise _mismatch("CRC32C", str(expected.crc32c), crc32c)
    if incoming.size_bytes > MD5_BYTES and expected.md5 is None:
        return crc32c, None
    md5 = _md5(incoming)
    if expected.md5 not in (None, md5):
        raise _mismatch("MD5 hash", str(expected.md5), md5)
    return crc32c, md5


def _md5(incoming: IncomingBody) -> str:
    if not incoming.is_on_disk:
        return encode_md5(io.BytesIO(incoming.memory))
    with incoming.path.open("rb") as file:
        return encode_md5(file)


def _mismatch(kind: str, given: str, calculated: str) -> StorageError:
    return invalid(f'Provided {kind} "{given}" doesn\'t match calculated {kind} "{calculated}".')


def _write_all(file: BinaryIO, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors() -> Iterator[None]:
    """A full or failing disk is the service's failure, told to the client as such."""
    try:
        yield
    except OSError as error:
        what = errno.errorcode.get(error.errno or 0, "I/O error")
        raise StorageError(507, "insufficientStorage", f"localsim cannot write: {what}") from error
