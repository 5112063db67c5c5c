"""Free TCP ports of this machine, for programs that will open them later."""

import contextlib
import socket
from collections.abc import Collection, Iterable

HOST = "127.0.0.1"


def listen(port: int = 0) -> socket.socket:
    """Return a listening loopback socket; port 0: one that the system chooses. Raises OSError."""
    return socket.create_server((HOST, port))


def choose_ports(count: int, taken: Collection[int]) -> tuple[int, ...]:
    """Return `count` distinct ports that nobody listens on and that are not in `taken`."""
    chosen: list[int] = []
    with contextlib.ExitStack() as held:  # held until the last is found, so none comes twice
        while len(chosen) < count:
            port = held.enter_context(listen()).getsockname()[1]
            if port not in taken:
                chosen.append(port)
    return tuple(chosen)


def are_free(ports: Iterable[int]) -> bool:
    """Whether nobody listens on any of the ports now."""
    try:
        with contextlib.ExitStack() as held:
            for port in ports:
                held.enter_context(listen(port))
    except OSError:
        return False
    return True
