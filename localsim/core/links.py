"""Messages between the worker processes of a slice: frames over TCP, every wait bounded."""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterable
from typing import Any

ARRAYS, HELLO, WELCOME, REFUSED, LOST = range(5)

_HEADER = struct.Struct("<BQ")
_MAX_WORDS_BYTES = 4096
_GIVE_UP_S = 1.0


class LinkError(Exception):
    """The other end is gone, silent, or does not speak our language."""


class Link:
    """A connection to one other worker."""

    def __init__(self, connection: socket.socket) -> None:
        """Takes the connection over."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection

    def send(self, kind: int, body: bytes, deadline_s: float) -> None:
        """Send a frame before the moment `deadline_s` of time.monotonic()."""
        try:
            self._socket.settimeout(_left(deadline_s))
            self._socket.sendall(_HEADER.pack(kind, len(body)) + body)
        except OSError as error:
            raise LinkError(_reason(error)) from error

    def receive(self, deadline_s: float, *, size_bytes: int) -> tuple[int, bytes]:
        """The next frame: of `size_bytes` when it holds arrays, else a few words."""
        kind, length = _HEADER.unpack(self._exactly(_HEADER.size, deadline_s))
        expected = length == size_bytes if kind == ARRAYS else length <= _MAX_WORDS_BYTES
        if not expected:
            raise LinkError(f"it sent {length} bytes instead of {size_bytes}")
        return kind, bytes(self._exactly(length, deadline_s))

    def send_words(self, kind: int, words: dict[str, Any], deadline_s: float) -> None:
        """Send a small record."""
        self.send(kind, json.dumps(words).encode(), deadline_s)

    def receive_words(self, deadline_s: float) -> tuple[int, dict[str, Any]]:
        """Receive a small record."""
        kind, body = self.receive(deadline_s, size_bytes=0)
        try:
            words = json.loads(body)
        except ValueError as error:
            raise LinkError("it speaks another language") from error
        if not isinstance(words, dict):
            raise LinkError("it speaks another language")
        return kind, words

    def drain(self, deadline_s: float) -> None:
        """Read until the other end closes: closing before would destroy what was sent to it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(_left(deadline_s))
            while self._socket.recv(65536):
                self._socket.settimeout(_left(deadline_s))

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _exactly(self, length: int, deadline_s: float) -> bytearray:
        data = bytearray(length)
        view, got = memoryview(data), 0
        while got < length:
            try:
                self._socket.settimeout(_left(deadline_s))
                count = self._socket.recv_into(view[got:])
            except OSError as error:
                raise LinkError(_reason(error)) from error
            if count == 0:
                raise LinkError("it closed the connection")
            got += count
        return data


def give_up(links: Iterable[Link], message: str) -> None:
    """Tell the other ends why it is over, then close."""
    deadline_s = time.monotonic() + _GIVE_UP_S
    told = list(links)
    for link in told:
        with contextlib.suppress(LinkError):
            link.send(LOST, message.encode(), deadline_s)
    for link in told:
        link.drain(deadline_s)
        link.close()


def _left(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _reason(error: OSError) -> str:
    return "it was silent for too long" if isinstance(error, TimeoutError) else str(error)
