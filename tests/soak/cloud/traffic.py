"""How many bytes the HTTP clients of this process exchange with a server."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock


@dataclass
class Traffic:
    """What has gone to, and come from, one port."""

    sent_bytes: int = 0
    received_bytes: int = 0


@contextmanager
def metered(port: int) -> Iterator[Traffic]:
    """Count what blocking sockets send to the port, and read from it, headers included."""
    traffic = Traffic()
    sendall, recv_into = socket.socket.sendall, socket.socket.recv_into

    def is_meant(connection: socket.socket) -> bool:
        try:
            return connection.getpeername()[1] == port
        except OSError:
            return False

    def counted_sendall(self, data, *flags):
        if is_meant(self):
            traffic.sent_bytes += memoryview(data).nbytes
        return sendall(self, data, *flags)

    def counted_recv_into(self, *arguments):
        count = recv_into(self, *arguments)
        if is_meant(self):
            traffic.received_bytes += count
        return count

    with (
        mock.patch.object(socket.socket, "sendall", counted_sendall),
        mock.patch.object(socket.socket, "recv_into", counted_recv_into),
    ):
        yield traffic
