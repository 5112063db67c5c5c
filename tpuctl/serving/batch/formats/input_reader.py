"""Reads one generation of one input object: small ones whole and verified, others by ranges."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from tpuctl.errors import IntegrityError, NotFoundError, PreconditionError
from tpuctl.store import Buffers, Store

WHOLE_BYTES = 64 * 1024 * 1024
"""Up to this size an object is read at once, and kept for its other units."""
BLOCK_BYTES = 8 * 1024 * 1024
BUFFER_BYTES = 1024 * 1024


class InputObject(NamedTuple):
    """An object of the inputs, as it was when the plan was made."""

    key: str
    """Below the directory of the input's pattern."""
    generation: int
    size_bytes: int
    crc32c: str


class InputReader:
    """Reads one input object; several threads may."""

    def __init__(self, store: Store, wanted: InputObject) -> None:
        """Nothing is read yet."""
        self._store = store
        self._wanted = wanted
        self._lock = threading.Lock()
        self._whole: memoryview | None = None

    @property
    def url(self) -> str:
        """The object's URL, for errors."""
        return f"{self._store.url}/{self._wanted.key}"

    @property
    def size_bytes(self) -> int:
        """The object's size."""
        return self._wanted.size_bytes

    def read(self, start: int, end: int) -> bytes:
        """The bytes from start up to, not including, end.

        Raises PreconditionError when the object is not what it was when the plan was made.
        """
        return bytes(self.view(start, end))

    def view(self, start: int, end: int) -> memoryview:
        """The same bytes without a copy, where the object is kept."""
        if self.is_kept:
            return self._read_whole()[start:end]
        return memoryview(self._get(start, min(end, self.size_bytes)))

    @property
    def is_kept(self) -> bool:
        """Whether the object is read at once, so that every further read is of memory."""
        return self.size_bytes <= WHOLE_BYTES

    def open(self) -> BinaryIO:
        """A file over the object, to seek and read in."""
        return self.open_part(0, self.size_bytes)

    def open_part(self, start: int, end: int) -> BinaryIO:
        """A file over the bytes from start up to, not including, end, to seek and read in.

        That of an object which is kept is a PartFile.
        """
        part = PartFile(self, start, min(end, self.size_bytes))
        return part if self.is_kept else io.BufferedReader(part, BUFFER_BYTES)  # type: ignore[return-value]

    def blocks(self) -> Iterator[bytes]:
        """All bytes in pieces, in order."""
        for start in range(0, self.size_bytes, BLOCK_BYTES):
            yield self.read(start, min(start + BLOCK_BYTES, self.size_bytes))

    def _read_whole(self) -> memoryview:
        with self._lock:
            if self._whole is None:
                self._whole = self._verified()
            return self._whole

    def _verified(self) -> memoryview:
        """All bytes, received into the memory that is read from; their checksum is the plan's."""
        wanted, memory = self._wanted, np.empty(self.size_bytes, np.uint8).data
        with self._refuse_others():
            self._store.read_into(wanted.key, 0, memory, generation=wanted.generation)
        if wanted.crc32c not in ("", Buffers([memory], WHOLE_BYTES).crc32c):
            raise IntegrityError(
                f"{self.url}: the checksum of the bytes that came is not that of the object"
            )
        return memory.toreadonly()

    def _get(self, start: int, end: int) -> bytes:
        wanted = self._wanted
        with self._refuse_others():
            return self._store.get_range(wanted.key, start, end, generation=wanted.generation)

    @contextlib.contextmanager
    def _refuse_others(self) -> Iterator[None]:
        """Raise PreconditionError when the generation of the plan is not there."""
        try:
            yield
        except NotFoundError as error:
            raise PreconditionError(
                f"{self.url} was changed or deleted after the plan was made"
                f" (generation {self._wanted.generation})",
                hint="predict into another output: tpuctl predict … --output gs://BUCKET/PREFIX",
            ) from error


class PartFile(io.RawIOBase):
    """A file whose reads are ranges of an object, from `start` to before `end`."""

    def __init__(self, source: InputReader, start: int, end: int) -> None:
        super().__init__()
        self._source, self._start, self._end = source, start, end
        self._place = start

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The place of the next read, from the part's start."""
        return self._place - self._start

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place; returns it, from the part's start."""
        origin = {io.SEEK_SET: self._start, io.SEEK_CUR: self._place, io.SEEK_END: self._end}
        self._place = max(self._start, origin[whence] + offset)
        return self.tell()

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`; all that are left without it."""
        return bytes(self.read_view(size))

    def read_view(self, size: int = -1) -> memoryview:
        """What `read` returns; of an object that is kept, without a copy."""
        end = self._end if size < 0 else min(self._place + size, self._end)
        if end <= self._place:
            return memoryview(b"")
        view = self._source.view(self._place, end)
        self._place += len(view)
        return view

    def readinto(self, buffer: object) -> int:
        """Read the next bytes into a buffer; returns how many."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self.read_view(view.nbytes)
        view[: len(data)] = data
        return len(data)
