"""The body of an upload in one request: what the object is, then its bytes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator

_JOINED_BYTES = 128 * 1024


class Multipart:
    """A body of known length that can be sent again; its pieces are not copied together.

    https://cloud.google.com/storage/docs/uploading-objects#uploading-an-object (multipart/related)
    """

    def __init__(
        self, described: bytes, pieces: Callable[[], Iterable[bytes | memoryview]], size_bytes: int
    ) -> None:
        """`described` is the object's JSON; `pieces` yields its bytes, anew at each call."""
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
