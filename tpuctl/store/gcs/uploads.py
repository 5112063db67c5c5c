"""The bodies of uploads: what the object is, then its bytes, or the rest of a file."""

from __future__ import annotations

import functools
import mimetypes
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from tpuctl.errors import IntegrityError
from tpuctl.store.entry import BLOCK_BYTES

_JOINED_BYTES = 128 * 1024


def content_type(key: str) -> str:
    """The media type of a key by its ending; Python's own table, so the same on every machine."""
    kind, encoding = _types().guess_type("/" + key.rpartition("/")[2])  # no URL
    return "application/octet-stream" if kind is None or encoding is not None else kind


@functools.cache
def _types() -> mimetypes.MimeTypes:
    return mimetypes.MimeTypes()


class Multipart:
    """A body of known length that can be sent again; its pieces are not copied together.

    https://cloud.google.com/storage/docs/uploading-objects#uploading-an-object (multipart/related)
    """

    def __init__(
        self, described: bytes, pieces: Callable[[], Iterable[bytes | memoryview]], size_bytes: int
    ) -> None:
        """`described` is the object's JSON; `pieces` yields its bytes, again at each call."""
        boundary = uuid.uuid4().hex.encode()
        self.content_type = f"multipart/related; boundary={boundary.decode()}"
        self._before = (
            b"--" + boundary + b"\r\nContent-Type: application/json\r\n\r\n" + described
            + b"\r\n--" + boundary + b"\r\nContent-Type: application/octet-stream\r\n\r\n"
        )  # fmt: skip
        self._after = b"\r\n--" + boundary + b"--\r\n"
        self._pieces = pieces
        self._size_bytes = size_bytes

    def __len__(self) -> int:
        return len(self._before) + self._size_bytes + len(self._after)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        if self._size_bytes <= _JOINED_BYTES:  # one packet instead of three
            yield b"".join((self._before, *self._pieces(), self._after))
            return
        yield self._before
        yield from self._pieces()
        yield self._after


class FileRest:
    """The bytes of a seekable file from `start` up to, not including, `end`, again each time."""

    def __init__(self, file: BinaryIO, start: int, end: int) -> None:
        self._file = file
        self._start = start
        self._end = end

    def __len__(self) -> int:
        return self._end - self._start

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(self._start)
        left = len(self)
        while left:
            block = self._file.read(min(BLOCK_BYTES, left))
            if not block:
                raise IntegrityError("the file became shorter while it was sent")
            left -= len(block)
            yield block
