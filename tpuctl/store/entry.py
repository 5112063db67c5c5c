"""What a store holds, and the seven calls every store answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import google_crc32c

from tpuctl.errors import UsageError
from tpuctl.store.buffers import Buffers
from tpuctl.store.crc32c_base64 import crc32c, encode_crc32c

Source = bytes | BinaryIO | Buffers
"""What can be put: bytes, a seekable file, from its beginning to its end, or views of memory."""

BLOCK_BYTES = 1024 * 1024
WRITE_NAME = "tpuctl-write"
"""In an object's metadata: which write it comes from, for who did not hear the answer."""


@dataclass(frozen=True)
class Entry:
    """One version of one object; `crc32c` in base64, as Cloud Storage spells it.

    It is "" in the list of a directory, where other means than a store put the file there.
    """

    key: str
    size_bytes: int
    generation: int
    crc32c: str
    updated_s: float


class Store(Protocol):
    """Objects by key. Raises the errors of tpuctl.errors and no others."""

    @property
    def url(self) -> str:
        """`gs://bucket/prefix`, or the directory's absolute path."""

    def put_if_absent(self, key: str, data: Source) -> Entry:
        """Create an object; PreconditionError when it exists."""

    def put_if_generation(self, key: str, data: Source, generation: int) -> Entry:
        """Replace that generation (0: nothing); PreconditionError when it is another."""

    def get_range(
        self, key: str, start: int = 0, end: int | None = None, *, generation: int | None = None
    ) -> bytes:
        """Bytes from start up to, not including, end; NotFoundError. A whole read is verified."""

    def read_into(self, key: str, start: int, buffer: memoryview, *, generation: int) -> None:
        """Fill a buffer (format B) with the bytes from start on of that generation, unverified.

        NotFoundError without it; IntegrityError when it ends before the buffer does.
        """

    def head(self, key: str) -> Entry | None:
        """What is known of an object, or None."""

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Every object whose key starts with the prefix, in the order of keys."""

    def delete(self, key: str, *, generation: int | None = None) -> bool:
        """Remove an object; False when there was none, PreconditionError when it changed."""


def blocks(source: Source) -> Iterator[bytes | memoryview]:
    """The bytes of a source in pieces, from its beginning on, again at each call."""
    if isinstance(source, bytes):
        yield source
    elif isinstance(source, Buffers):
        yield from source.blocks()
    else:
        if not source.seekable():
            raise UsageError("only a seekable file can be put: a failed request must be sent again")
        source.seek(0)
        while block := source.read(BLOCK_BYTES):
            yield block


def measure_source(source: Source) -> tuple[int, str]:
    """Size and checksum of a source; a file then stands at its beginning."""
    if isinstance(source, bytes):
        return len(source), crc32c(source)
    if isinstance(source, Buffers):
        return source.size_bytes, source.crc32c
    size_bytes, value = 0, 0
    for block in blocks(source):
        size_bytes += len(block)
        value = google_crc32c.extend(value, block)
    source.seek(0)
    return size_bytes, encode_crc32c(value)
