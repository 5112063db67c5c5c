"""Free TCP ports of this machine, for programs that will open them later."""

import contextlib
import errno
import random
import socket
from collections.abc import Callable, Collection, Iterable

from localsim import loopback

HOST = loopback.LOOPBACK
PORTS = (20_000, 32_768)
"""Below the ports that Linux and macOS give to outgoing connections: one of those may take a port
between its choice and the moment when a program of the worker opens it."""
MAX_TRIES = 1000


def listen(port: int = 0) -> socket.socket:
    """Return a loopback socket that listens for this user; port 0: the system chooses one.

    Raises OSError.
    """
    return loopback.listen(port)


def choose_ports(
    count: int, taken: Collection[int], pick: Callable[[int, int], int] = random.randrange
) -> tuple[int, ...]:
    """Return `count` distinct ports that nobody listens on and that are not in `taken`.

    `pick(start, stop)` returns a candidate. Raises OSError when hardly any port is free.
    """
    chosen: list[int] = []
    with contextlib.ExitStack() as held:  # held until the last is found, so none comes twice
        for _ in range(MAX_TRIES):
            if len(chosen) == count:
                return tuple(chosen)
            port = pick(*PORTS)
            with contextlib.suppress(OSError):
                if port not in taken:
                    held.enter_context(listen(port))
                    chosen.append(port)
    raise OSError(errno.EADDRINUSE, f"no {count} free ports from {PORTS[0]} to {PORTS[1]}")


def are_free(ports: Iterable[int]) -> bool:
    """Whether nobody listens on any of the ports now."""
    try:
        with contextlib.ExitStack() as held:
            for port in ports:
                held.enter_context(listen(port))
    except OSError:
        return False
    return True
