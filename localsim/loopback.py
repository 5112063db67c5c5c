"""Listening sockets on loopback, which everybody on this machine can reach.

A port without TLS and tokens is for the user who runs this process alone, as far as the system
tells to whom a connection belongs (peer_owner.py).
"""

import errno
import socket
from typing import Any

from localsim import peer_owner

LOOPBACK = "127.0.0.1"
LOOPBACK_6 = "::1"
_NO_IPV6 = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)


class OwnerSocket(socket.socket):
    """A listening socket whose connections are of this process's user or of root."""

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; raises ConnectionAbortedError for one of somebody else's."""
        connection, peer = super().accept()
        try:
            if peer_owner.is_trusted(peer[:2], connection.getsockname()[:2]):
                return connection, peer
        except OSError:
            pass  # it has gone, or no descriptor is left to ask by
        connection.close()
        raise ConnectionAbortedError(errno.ECONNABORTED, "a connection of nobody's or another's")


def listen(port: int = 0, host: str = LOOPBACK) -> OwnerSocket:
    """A socket that listens for this user; port 0: one that the system chooses. Raises OSError."""
    return OwnerSocket(fileno=_listening(port, host).detach())


def listen_everywhere(port: int, *, is_for_all: bool = False) -> list[socket.socket]:
    """Sockets at a port of 127.0.0.1 and, where this machine has it, of ::1; raises OSError.

    They are for this user, unless `is_for_all` is true.
    """
    opened = [_listening(port, LOOPBACK)]
    try:
        opened.append(_listening(opened[0].getsockname()[1], LOOPBACK_6))
    except OSError as error:
        if error.errno not in _NO_IPV6:
            opened[0].close()
            raise
    return opened if is_for_all else [OwnerSocket(fileno=each.detach()) for each in opened]


def has_ipv6() -> bool:
    """Whether this machine has ::1."""
    try:
        _listening(0, LOOPBACK_6).close()
    except OSError:
        return False
    return True


def _listening(port: int, host: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)
