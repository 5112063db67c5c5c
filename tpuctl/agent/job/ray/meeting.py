"""Where the hosts of a Ray cluster meet: a connection from each of them to worker 0. Python 3.8.

Worker 0 says first where the cluster is, and last that the program has ended. Every other host says
that it has joined. A connection that breaks before the last word means that worker 0 is gone.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time

from tpuctl.agent.job.selector import Selector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PORTS = range(6370, 6378)
"""Below Ray's own 6379; the first that is free, as another run may have the same address."""
CONNECT_S = 2.0
PAUSE_S = 0.2
BLOCK_BYTES = 65536
LONGEST_BYTES = 4096
KEEPALIVE_S = 15


class Meeting:
    """Worker 0's end."""

    def __init__(self, selector: Selector, address: str, run: str, cluster: str) -> None:
        """Listen at an address of this host; raises OSError.

        `run` is the name of the run, and `cluster` what the others are to be told of it.
        """
        self.selector = selector
        self.greeting = {"run": run, "cluster": cluster}
        self.joined: set[int] = set()
        self.guests: list[socket.socket] = []
        self.door = listen(address)
        selector.watch_ready(self.door.fileno(), self.admit)

    def admit(self) -> None:
        """Greet a host, and hear from it."""
        with contextlib.suppress(OSError):
            guest, _ = self.door.accept()
            guest.settimeout(CONNECT_S)
            send(guest, self.greeting)
            self.guests.append(guest)
            self.selector.watch(guest.fileno(), LineReader(self.hear).feed)

    def hear(self, message: dict[str, Any]) -> None:
        """Note the number of a host that has joined."""
        if isinstance(message.get("joined"), int):
            self.joined.add(message["joined"])

    def end(self) -> None:
        """Tell every host that the program has ended."""
        for guest in self.guests:
            with contextlib.suppress(OSError):
                send(guest, {"ended": True})


class LineReader:
    """Cuts what comes into lines of JSON; what is none is passed over."""

    def __init__(self, take: Callable[[dict[str, Any]], None]) -> None:
        self.take = take
        self.rest = b""

    def feed(self, block: bytes) -> None:
        """Take what has come."""
        *lines, rest = (self.rest + block).split(b"\n")
        self.rest = rest[-LONGEST_BYTES:]
        for line in lines:
            message = parse(line)
            if message:
                self.take(message)


def listen(address: str) -> socket.socket:
    """Listen at the first of PORTS that is free; raises OSError."""
    for port in PORTS:
        door = socket.socket()
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((address, port))
            door.listen(1024)
            door.settimeout(0.0)
            return door
        except OSError as error:
            door.close()
            complaint = error
    raise complaint


def find(address: str, run: str) -> tuple[socket.socket, str] | None:
    """Connect to the meeting of a run; return the connection and where the cluster is, or None."""
    for port in PORTS:
        with contextlib.suppress(OSError):
            connection = socket.create_connection((address, port), CONNECT_S)
            greeting = parse(read_line(connection))
            if greeting.get("run") == run:
                keep_alive(connection)
                return connection, str(greeting["cluster"])
            connection.close()
    return None


def read_line(connection: socket.socket) -> bytes:
    """Read the first line that comes, within CONNECT_S; raises OSError."""
    line, until = b"", time.monotonic() + CONNECT_S
    while not line.endswith(b"\n") and len(line) < LONGEST_BYTES and time.monotonic() < until:
        byte = connection.recv(1)  # what follows the line is for the next reader
        if not byte:
            break
        line += byte
    return line


def keep_alive(connection: socket.socket) -> None:
    """Notice within a minute that the other host is gone without a word."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), KEEPALIVE_S)
    if hasattr(socket, "TCP_KEEPCNT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send a message as a line; raises OSError."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def parse(line: bytes) -> dict[str, Any]:
    """Return the message of a line; empty when it is none."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}
