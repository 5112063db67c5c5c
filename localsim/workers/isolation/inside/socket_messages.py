"""Messages with descriptors between the simulator and what it started: JSON over a Unix socket.

A message is its length, the number of its descriptors, and one JSON object.
"""

import array
import json
import os
import socket
import struct
from typing import Any

_HEAD = struct.Struct("!IB")
_MOST_DESCRIPTORS = 16
_LONGEST = 16 << 20
_READ_BYTES = 65536


class GarbledError(Exception):
    """What came is not a message: a program has meddled with its worker's first process."""


class Inbox:
    """Collects received bytes and descriptors, and splits them into messages."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._descriptors: list[int] = []
        self.lacks_descriptors = False
        """Whether some that came could not be taken: this process has too many open."""

    def receive(self, connection: socket.socket) -> bool:
        """Read once; False at the end. Raises BlockingIOError, OSError."""
        space = socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4)
        data, ancillary, flags, _ = connection.recvmsg(_READ_BYTES, space, socket.MSG_CMSG_CLOEXEC)
        self.lacks_descriptors = bool(flags & socket.MSG_CTRUNC)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors = array.array("i")
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
                self._descriptors.extend(descriptors)
        self._data += data
        return bool(data)

    def take(self) -> "tuple[dict[str, Any], list[int]] | None":
        """The next whole message and its descriptors, which are the caller's to close.

        Raises GarbledError.
        """
        if len(self._data) < _HEAD.size:
            return None
        length, count = _HEAD.unpack_from(self._data)
        if length > _LONGEST:
            raise GarbledError
        end = _HEAD.size + length
        if len(self._data) < end:
            return None
        message = _read(self._data[_HEAD.size : end])
        del self._data[:end]
        descriptors, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        return message, descriptors

    def close(self) -> None:
        """Close the descriptors whose message never came."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()


def _read(body: bytearray) -> "dict[str, Any]":
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise GarbledError from error
    if not isinstance(message, dict):
        raise GarbledError
    return message


def pack(message: "dict[str, Any]", descriptors: int = 0) -> bytes:
    """Encode a message that goes with so many descriptors."""
    body = json.dumps(message).encode()
    return _HEAD.pack(len(body), descriptors) + body


def send(connection: socket.socket, message: "dict[str, Any]", *descriptors: int) -> None:
    """Send a message over a blocking socket; raises OSError."""
    data = pack(message, len(descriptors))
    sent = socket.send_fds(connection, [data], descriptors) if descriptors else 0
    if sent < len(data):
        connection.sendall(data[sent:])
