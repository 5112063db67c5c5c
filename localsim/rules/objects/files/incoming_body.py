"""Bodies while they are received: hashed, in memory while small, then in a file.

With a data key only encrypted bytes are kept, in memory and on disk; checksums are of plain ones.
"""

import io
import os
import secrets
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from errno import EIO
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from localsim.rules.objects.files.body_cipher import apply_cipher, decrypting_file
from localsim.rules.objects.files.durable_files import (
    create_private,
    disk_errors,
    synchronize_file,
    write_all,
)
from localsim.rules.objects.storage_model import (
    Hashes,
    StorageError,
    encode_crc32c,
    encode_md5,
    extend_crc32c,
    invalid,
)

INLINE_BYTES = 128 * 1024
"""Up to here a body is a row: one flush of the disk then serves every upload of a batch."""
FLUSH_BYTES = 256 * 1024 * 1024
"""How often the disk is told to go on, so that a bounded part is left to wait for at the end.

More often would be a little faster, but what is written meanwhile waits for the disk, and with it
everybody else: every 32 MiB doubles the slowest hundredth of other calls.
"""
FLUSHES = 4
"""How many bodies are flushed at a time."""


@dataclass(frozen=True, slots=True)
class ObjectBody:
    """A received and checked body: small ones in `data`, others in `files`, in order."""

    size_bytes: int
    crc32c: str
    md5: str | None
    data: bytes | None = None
    files: tuple[str, ...] = ()
    data_keys: tuple[bytes, ...] = field(default=(), repr=False)
    """The key of each file, or that of `data`, where they are encrypted."""


class IncomingBody:
    """A body that is being received: in memory while small, then in a file."""

    def __init__(self, folder: Path, name: str | None, flusher: Executor) -> None:
        """Its file, if it comes to one, has the name or a random one.

        `flusher` runs what blocks on the disk while bytes go on to come.
        """
        self._folder = folder
        self._name = name
        self.size_bytes = 0
        self.crc32c = 0
        self._received: list[bytes] = []
        self._file: BinaryIO | None = None
        self._flusher = flusher
        self._flush: Future[None] | None = None
        self._is_lost = False
        self._data_key: bytes | None = None

    @cached_property
    def path(self) -> Path:
        """The path that its file has or would get."""
        return self._folder / (self._name or secrets.token_hex(16))

    @property
    def memory(self) -> bytes:
        """The received bytes that are in no file."""
        return b"".join(self._received)

    @property
    def data_keys(self) -> tuple[bytes, ...]:
        """The key with which it is encrypted, if it is."""
        return () if self._data_key is None else (self._data_key,)

    def encrypt(self, data_key: bytes | None) -> None:
        """Encrypt all bytes with a key, before the first of them comes."""
        self._data_key = data_key

    def open_plain(self) -> BinaryIO:
        """The received bytes to read, from the first on."""
        file: BinaryIO = self.path.open("rb") if self.is_on_disk else io.BytesIO(self.memory)
        return file if self._data_key is None else decrypting_file(file, self._data_key)

    @property
    def is_on_disk(self) -> bool:
        """Whether sealing it blocks on the disk."""
        return self._file is not None

    def create(self) -> None:
        """Create the file now and write the received bytes to it."""
        with disk_errors():
            self._file = create_private(self.path)
            write_all(self._file, self.memory)
            self._received.clear()

    def resume(self, size_bytes: int, crc32c: int) -> None:
        """Continue a file whose first `size_bytes` are known to be good."""
        with disk_errors():
            self._file = self.path.open("r+b", buffering=0)
            if os.fstat(self._file.fileno()).st_size < size_bytes:
                raise OSError(EIO, "bytes on record are gone")
            self._file.truncate(size_bytes)
            self._file.seek(size_bytes)
        self.size_bytes, self.crc32c = size_bytes, crc32c

    def write(self, data: bytes) -> "Future[None] | None":
        """Take the next bytes; what it returns has to end before more of them come.

        Every 256 MiB a flush of the disk begins, which may take until the next one begins.
        """
        if not data:
            return None
        kept = data
        if self._data_key is not None:
            kept = apply_cipher(self._data_key, data, self.size_bytes)
        if self._file is None and self.size_bytes + len(data) > INLINE_BYTES:
            self.create()
        if self._file is None:
            self._received.append(kept)  # most small bodies come in one piece
        else:
            with disk_errors():
                write_all(self._file, kept)
        return self.count(len(data), extend_crc32c(self.crc32c, data))

    @property
    def until_flush_bytes(self) -> int:
        """How many bytes may come before a flush begins."""
        return FLUSH_BYTES - self.size_bytes % FLUSH_BYTES

    def descriptor(self) -> int:
        """The file at its end, for another process that appends to it; see `count`."""
        if self._file is None:
            self.create()
        assert self._file is not None
        return self._file.fileno()

    def count(self, size_bytes: int, crc32c: int) -> "Future[None] | None":
        """Take note of written bytes, and of the checksum with them; returns what `write` does."""
        before = self.size_bytes // FLUSH_BYTES
        self.crc32c = crc32c
        self.size_bytes += size_bytes
        if self._file is None or self.size_bytes // FLUSH_BYTES == before:
            return None
        previous, self._flush = self._flush, self._flusher.submit(self._synchronize)
        return previous

    def sync(self) -> None:
        """Flush what was written to disk; blocks. Raises 507 if any flush has ever failed."""
        if self._flush is not None:
            self._flush.result()
        self._synchronize()

    def close(self) -> None:
        """Close the file, which stays."""
        if self._flush is not None:
            self._flush.cancel()
        if self._file is not None:
            self._file.close()

    def discard(self) -> None:
        """Close and remove the file, unless it has been sealed."""
        self.close()
        if self._file is not None:
            self.path.unlink(missing_ok=True)

    def _synchronize(self) -> None:
        if self._file is not None and not self._file.closed:
            with disk_errors():
                if self._is_lost:
                    raise OSError(EIO, "an earlier flush has failed")
                try:
                    synchronize_file(self._file.fileno())
                except OSError:  # the disk tells of it once, and has dropped the bytes
                    self._is_lost = True
                    raise


def checked_hashes(incoming: IncomingBody, expected: Hashes) -> tuple[str, str | None]:
    """The CRC32C, and the MD5 if there is one; raises 400 when one differs from the expected."""
    crc32c = encode_crc32c(incoming.crc32c)
    if expected.crc32c not in (None, crc32c):
        raise _mismatch("CRC32C", str(expected.crc32c), crc32c)
    # It takes 1.4 ms a MiB, of a large upload as much as everything else.
    if not expected.wants_md5 and expected.md5 is None:
        return crc32c, None
    md5 = _md5(incoming)
    if expected.md5 not in (None, md5):
        raise _mismatch("MD5 hash", str(expected.md5), md5)
    return crc32c, md5


def _md5(incoming: IncomingBody) -> str:
    with incoming.open_plain() as file:
        return encode_md5(file)


def _mismatch(kind: str, given: str, calculated: str) -> StorageError:
    return invalid(f'Provided {kind} "{given}" doesn\'t match calculated {kind} "{calculated}".')
