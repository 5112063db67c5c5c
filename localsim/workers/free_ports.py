"""Free TCP ports of this machine, for programs that will open them later."""

import contextlib
import socket
from collections.abc import Collection, Iterable

HOST = "127.0.0.1"


def listen(port: int = 0) -> socket.socket:
    """A listening loopback socket, on a port of the system's choice unless told; raises OSError."""
    return socket.create_server((HOST, port))


def choose_ports(count: int, taken: Collection[int]) -> tuple[int, ...]:
    """`count` distinct ports that nobody listens on and that are not taken."""
    chosen: list[int] = []
    with contextlib.ExitStack() as held:  # held until the last is found, so none comes twice
        while len(chosen) < count:
            port = held.enter_context(listen()).getsockname()[1]
            if port not in taken:
                chosen.append(port)
    return tuple(chosen)


def are_free(ports: Iterable[int]) -> bool:
    """Whether nobody listens on any of them now."""
    try:
        with contextlib.ExitStack() as held:
            for port in ports:
                held.enter_context(listen(port))
    except OSError:
        return False
    return True
