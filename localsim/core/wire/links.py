"""What two workers say to each other before they are linked: small records over TCP, in time."""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

_LENGTH = struct.Struct("<I")
_MOST_BYTES = 4096


class MeshError(RuntimeError):
    """A worker of the slice is lost, missing, or not of this run; the message names it."""


class LinkError(Exception):
    """The other end is gone, silent, or does not speak our language."""


def dial(address: tuple[str, int], deadline_s: float) -> socket.socket:
    """A connection to a worker that listens; raises OSError."""
    (family, *_, where), *_ = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Should this end get the number of a port at which another worker is to listen, let it.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.settimeout(remaining_s(deadline_s))
        connection.connect(where)
        if connection.getsockname() == connection.getpeername():
            raise ConnectionRefusedError("nobody listens")  # Linux has connected it to itself
    except OSError:
        connection.close()
        raise
    disable_nagle(connection)
    return connection


def listen(address: tuple[str, int]) -> socket.socket:
    """A socket that listens at a worker's address; raises OSError."""
    (family, *_), *_ = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    return socket.create_server(address, family=family, backlog=1024)


def disable_nagle(connection: socket.socket) -> None:
    """Have small messages sent at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def send_words(connection: socket.socket, words: dict[str, Any], deadline_s: float) -> None:
    """Send a small record before the moment `deadline_s` of time.monotonic(); raises LinkError."""
    body = json.dumps(words).encode()
    with _told_as_link_error():
        connection.settimeout(remaining_s(deadline_s))
        connection.sendall(_LENGTH.pack(len(body)) + body)


def receive_words(connection: socket.socket, deadline_s: float) -> dict[str, Any]:
    """Receive a small record, and nothing of what follows it; raises LinkError."""
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size, deadline_s))
    if length > _MOST_BYTES:
        raise LinkError("it speaks another language")
    try:
        words: dict[str, Any] = json.loads(_exactly(connection, length, deadline_s))
        if isinstance(words, dict):
            return words
    except (ValueError, RecursionError):
        pass
    raise LinkError("it speaks another language")


def remaining_s(deadline_s: float) -> float:
    """Seconds until the moment `deadline_s` of time.monotonic(); raises TimeoutError after it."""
    left = deadline_s - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _exactly(connection: socket.socket, length: int, deadline_s: float) -> bytes:
    data = b""
    while len(data) < length:
        with _told_as_link_error():
            connection.settimeout(remaining_s(deadline_s))
            part = connection.recv(length - len(data))
        if not part:
            raise LinkError("it closed the connection")
        data += part
    return data


@contextlib.contextmanager
def _told_as_link_error() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise LinkError("it does not answer") from error
    except OSError as error:
        raise LinkError(error.strerror or str(error)) from error
