"""One message to a peer and one from it, in whatever pieces the connection takes and gives them."""

import hashlib
import selectors
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localsim.core.wire.peer_monitor import Progress

_WORDS_BYTES, _KEPT_BYTES = 160, 120
_HEADER = struct.Struct(f"<QHQ{_WORDS_BYTES}s")
"""Number of the collective, round in it, bytes that follow, the collective in words."""
_MOST_BUFFERS = 64
"""So many buffers go to the system at once: it takes 1,024, but looks at each every time."""


class Transfer:
    """What is still to be sent to one peer, and to be received from it, in one round."""

    def __init__(
        self,
        progress: Progress,
        outgoing: Sequence[NDArray[Any]] | None,
        incoming: Sequence[NDArray[Any]] | None,
    ) -> None:
        """None stands for no message; the arrays are C-contiguous, the incoming ones are filled."""
        self.moved_s = time.monotonic()
        self._sending = [] if outgoing is None else [_header(progress, outgoing), *_views(outgoing)]
        self._expected = b"" if incoming is None else bytes(_header(progress, incoming))
        self._header = bytearray(len(self._expected))
        self._receiving = [] if incoming is None else [memoryview(self._header), *_views(incoming)]

    def wanted(self) -> int:
        """The events of `selectors` that it waits for; 0 when all has been sent and received."""
        writes = selectors.EVENT_WRITE if self._sending else 0
        return writes | (selectors.EVENT_READ if self._receiving else 0)

    def send(self, link: socket.socket) -> None:
        """Send what the connection takes now; raises OSError."""
        self._sending = self._advance(self._sending, link.sendmsg(self._sending[:_MOST_BUFFERS]))

    def receive(self, link: socket.socket) -> Progress | None:
        """Receive what has come; return the progress of a peer at another collective.

        Raises OSError.
        """
        count = link.recvmsg_into(self._receiving[:_MOST_BUFFERS])[0]
        if count == 0:
            raise ConnectionResetError("it closed the connection")
        is_header = self._receiving[0].obj is self._header
        self._receiving = self._advance(self._receiving, count)
        is_complete = not self._receiving or self._receiving[0].obj is not self._header
        if not is_header or not is_complete or self._header == self._expected:
            return None
        number, rounds, _, words = _HEADER.unpack(self._header)
        return Progress(number, rounds, words.rstrip(b"\0").decode(errors="replace"))

    def _advance(self, views: list[memoryview], count: int) -> list[memoryview]:
        """The views without their first `count` bytes, which have moved."""
        self.moved_s = time.monotonic()
        done = 0
        while done < len(views) and count >= len(views[done]):
            count -= len(views[done])
            done += 1
        left = views[done:]
        if count:
            left[0] = left[0][count:]
        return left


def shorten_words(words: str) -> str:
    """Shorten words to what fits into a message; different words stay different."""
    plain = words.encode("ascii", "backslashreplace")
    if len(plain) > _WORDS_BYTES:
        plain = plain[:_KEPT_BYTES] + b" ... " + hashlib.sha256(plain).hexdigest()[:16].encode()
    return plain.decode()


def _header(progress: Progress, arrays: Sequence[NDArray[Any]]) -> memoryview:
    number, rounds, words = progress
    size_bytes = sum(array.nbytes for array in arrays)
    return memoryview(_HEADER.pack(number, rounds, size_bytes, words.encode()))


def _views(arrays: Sequence[NDArray[Any]]) -> list[memoryview]:
    return [array.reshape(-1).view(np.uint8).data for array in arrays if array.size]
