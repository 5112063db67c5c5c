"""Reads one generation of one input object: small ones whole and verified, others by ranges."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from tpuctl.errors import NotFoundError, PreconditionError
from tpuctl.store import Store

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
        self._whole: bytes | None = None

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
        if self.size_bytes <= WHOLE_BYTES:
            return memoryview(self._read_whole())[start:end]
        return memoryview(self._get(start, min(end, self.size_bytes)))

    def open(self) -> BinaryIO:
        """A file over the object, to seek and read in."""
        if self.size_bytes <= WHOLE_BYTES:
            return io.BytesIO(self._read_whole())
        return self.open_part(0, self.size_bytes)

    def open_part(self, start: int, end: int) -> BinaryIO:
        """A file over the bytes from start up to, not including, end, to seek and read in."""
        return io.BufferedReader(_RangeFile(self, start, min(end, self.size_bytes)), BUFFER_BYTES)

    def blocks(self) -> Iterator[bytes]:
        """All bytes in pieces, in order."""
        for start in range(0, self.size_bytes, BLOCK_BYTES):
            yield self.read(start, min(start + BLOCK_BYTES, self.size_bytes))

    def _read_whole(self) -> bytes:
        with self._lock:
            if self._whole is None:
                self._whole = self._get(0, None)
            return self._whole

    def _get(self, start: int, end: int | None) -> bytes:
        wanted = self._wanted
        try:
            return self._store.get_range(wanted.key, start, end, generation=wanted.generation)
        except NotFoundError as error:
            raise PreconditionError(
                f"{self.url} was changed or deleted after the plan was made"
                f" (generation {wanted.generation})",
                hint="predict into another output: tpuctl predict … --output gs://BUCKET/PREFIX",
            ) from error


class _RangeFile(io.RawIOBase):
    """A file whose reads are ranges of an object, from `start` to before `end`."""

    def __init__(self, source: InputReader, start: int, end: int) -> None:
        super().__init__()
        self._source, self._start, self._end = source, start, end
        self._place = start

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place - self._start

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: self._start, io.SEEK_CUR: self._place, io.SEEK_END: self._end}
        self._place = max(self._start, origin[whence] + offset)
        return self.tell()

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        end = min(self._place + view.nbytes, self._end)
        if end <= self._place:
            return 0
        data = self._source.view(self._place, end)
        view[: len(data)] = data
        self._place += len(data)
        return len(data)
