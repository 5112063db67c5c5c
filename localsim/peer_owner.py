"""To which user the other end of a loopback connection belongs, asked of Linux as identd does.

The kernel's socket diagnostics find one connection (sock_diag(7)); where they are left out of the
kernel, all connections are read (/proc/net/tcp). An end that has been closed belongs to nobody: the
kernel then says 0, which is root's number too, so an end counts only while it has an inode.
"""

import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

Address = tuple[str, int]
Lookup = Callable[[Address, Address], int | None]
"""The user of the connection from the first address to the second; None where there is none."""

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_OPEN_STATES = frozenset({1, 4, 5, 8})
"""ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT: whoever has it may still send or read."""
_ALL_STATES = 0xFFFFFFFF
_ANY_COOKIE = b"\xff" * 8
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI")
_REPLY = struct.Struct("=BBxx")
_PORTS = struct.Struct("!HH")
_OWNER = struct.Struct("=II")
_ID_SIZE = 48
"""struct inet_diag_sockid: two ports, two addresses of 16 bytes, an interface and a cookie."""
_OWNER_AT = _REPLY.size + _ID_SIZE + 12
"""Behind the id: the timer and the two queues, then user and inode."""


def is_trusted(peer: Address, own: Address) -> bool:
    """Whether this process's user or root is at the other end, or the system cannot tell."""
    lookup = _working_lookup()
    return lookup is None or lookup(peer, own) in (0, os.geteuid())


@cache
def _working_lookup() -> Lookup | None:
    """The first way that knows a connection of this process; None where there is none."""
    if sys.platform != "linux":
        return None
    with socket.create_server(("127.0.0.1", 0)) as listening:
        own = listening.getsockname()
        with socket.create_connection(own) as connection:
            for lookup in (ask_kernel, read_table):
                try:
                    if lookup(connection.getsockname(), own) == os.geteuid():
                        return lookup
                except OSError:
                    continue
    return None


def find_inode(peer: Address, own: Address) -> int:
    """The inode of the socket at the other end of a connection, 0 where nothing tells it."""
    try:
        _, _, inode = _ask_for_owner(peer, own) or (0, 0, 0)
    except OSError:
        return 0
    return inode


def ask_kernel(peer: Address, own: Address) -> int | None:
    """Find one connection by socket diagnostics; raises OSError where there are none."""
    found = _ask_for_owner(peer, own)
    if found is None:
        return None
    state, uid, inode = found
    return uid if state in _OPEN_STATES and inode else None


def _ask_for_owner(peer: Address, own: Address) -> tuple[int, int, int] | None:
    """State, user and inode of one connection; raises OSError."""
    family = socket.AF_INET6 if ":" in peer[0] else socket.AF_INET
    there, here = (socket.inet_pton(family, address[0]).ljust(16, b"\0") for address in (peer, own))
    body = (
        _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES)
        + _PORTS.pack(peer[1], own[1])
        + there
        + here
        + bytes(4)
        + _ANY_COOKIE
    )
    header = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.sendto(header + body, (0, 0))
        reply = kernel.recv(4096)
    kind = _HEADER.unpack_from(reply)[1]
    found = reply[_HEADER.size :]
    if kind != _SOCK_DIAG_BY_FAMILY or _PORTS.unpack_from(found, _REPLY.size) != (peer[1], own[1]):
        return None  # an error, or a socket that listens at the number of one that is gone
    state = _REPLY.unpack_from(found)[1]
    uid, inode = _OWNER.unpack_from(found, _OWNER_AT)
    return state, uid, inode


def read_table(peer: Address, own: Address) -> int | None:
    """Find one connection among all; raises OSError where there is no table of them."""
    addresses = [_numbers(peer), _numbers(own)]
    for local, remote, state, uid, inode in _connections():
        if [local, remote] == addresses and state in _OPEN_STATES and inode:
            return uid
    return None


def _connections() -> Iterator[tuple[tuple[int, int], tuple[int, int], int, int, int]]:
    for name in ("tcp", "tcp6"):  # an IPv6 socket may speak IPv4
        try:
            lines = Path("/proc/net", name).read_text("ascii").splitlines()[1:]
        except FileNotFoundError:
            if name == "tcp":
                raise
            continue
        for line in lines:
            _, local, remote, state, _, _, _, uid, _, inode, *_ = line.split()
            yield _parsed(local), _parsed(remote), int(state, 16), int(uid), int(inode)


def _parsed(text: str) -> tuple[int, int]:
    """An address of the table, words of 32 bits as this machine writes them, as two numbers."""
    words, _, port = text.partition(":")
    data = bytes.fromhex(words)
    if sys.byteorder == "little":
        data = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    return _numbers((str(ipaddress.ip_address(data)), int(port, 16)))


def _numbers(address: Address) -> tuple[int, int]:
    """An address and its port as numbers; an IPv4 address inside IPv6 is that IPv4 address."""
    parsed = ipaddress.ip_address(address[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return int(mapped or parsed), address[1]
