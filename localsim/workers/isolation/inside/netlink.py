"""Links, addresses and routes of one network namespace, by rtnetlink(7)."""

import contextlib
import errno
import os
import socket
import struct

_NEWLINK, _NEWADDR, _NEWROUTE, _DELROUTE = 16, 20, 24, 25
_REQUEST, _ACK, _EXCL, _CREATE = 0x1, 0x4, 0x200, 0x400
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_PID = 1, 3, 10, 18, 19
_INFO_KIND, _INFO_DATA, _VETH_INFO_PEER, _BR_MCAST_SNOOPING = 1, 2, 1, 23
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_IFF_UP = 1
_TABLE_MAIN, _BY_BOOT, _UNIVERSE, _UNICAST = 254, 3, 0, 1
_KIND = (_TABLE_MAIN, _BY_BOOT, _UNIVERSE, _UNICAST)
"""Table, protocol, scope and type of every route that is made here."""
_RTNH_F_ONLINK = 4
_ANSWER_BYTES = 65536
_BRIDGE_ADDRESS = b"\x02\0\0\0\0\x01"
"""The address of every bridge: no two bridges share a network."""


class Netlink:
    """A netlink socket, by which links and routes of one namespace are changed."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def add_bridge(self, name: str) -> None:
        """Create a bridge that is up; raises OSError."""
        quiet = _attribute(_BR_MCAST_SNOOPING, b"\0")  # it would ask its members now and then
        info = _attribute(_INFO_KIND, b"bridge") + _attribute(_INFO_DATA, quiet)
        # Else it takes the lowest address of its cables: another one when that cable goes.
        own = _attribute(_IFLA_ADDRESS, _BRIDGE_ADDRESS)
        body = _link(up=True) + _name(name) + own + _attribute(_IFLA_LINKINFO, info)
        self._ask(_NEWLINK, _CREATE | _EXCL, body)

    def add_veth(self, name: str, *, bridge: str, peer: str, pid: int) -> None:
        """Connect the bridge by a veth pair with `peer` in another namespace; raises OSError."""
        far = _link() + _name(peer) + _attribute(_IFLA_NET_NS_PID, struct.pack("I", pid))
        data = _attribute(_INFO_DATA, _attribute(_VETH_INFO_PEER, far))
        info = _attribute(_INFO_KIND, b"veth") + data
        master = _attribute(_IFLA_MASTER, struct.pack("I", socket.if_nametoindex(bridge)))
        body = _link(up=True) + _name(name) + master + _attribute(_IFLA_LINKINFO, info)
        self._ask(_NEWLINK, _CREATE | _EXCL, body)

    def set_up(self, name: str, *, up: bool = True) -> None:
        """Switch a link on or off; raises OSError."""
        self._ask(_NEWLINK, 0, _link(socket.if_nametoindex(name), up=up))

    def add_address(self, name: str, address: str) -> None:
        """Give a link an address, `10.128.0.2/16`; raises OSError."""
        host, _, bits = address.partition("/")
        packed = socket.inet_aton(host)
        head = struct.pack(
            "BBBBI", socket.AF_INET, int(bits), 0, _UNIVERSE, socket.if_nametoindex(name)
        )
        body = head + _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)
        self._ask(_NEWADDR, _CREATE | _EXCL, body)

    def add_route(self, target: str, *, via: str, link: str) -> None:
        """Add a route to `target`, such as 0.0.0.0/0, unless it is there; raises OSError."""
        with contextlib.suppress(FileExistsError):
            self._ask(_NEWROUTE, _CREATE | _EXCL, _route(target, via, link))

    def delete_route(self, target: str, *, via: str, link: str) -> None:
        """Delete a route to `target` if it is there; raises OSError."""
        with contextlib.suppress(ProcessLookupError):
            self._ask(_DELROUTE, 0, _route(target, via, link))

    def _ask(self, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        head = struct.pack(
            "IHHII", 16 + len(body), kind, _REQUEST | _ACK | flags, self._sequence, 0
        )
        self._socket.send(head + body)
        answer = self._socket.recv(_ANSWER_BYTES)
        (code,) = struct.unpack_from("i", answer, 16)
        if code:
            lacks_links = code == -errno.EOPNOTSUPP
            reason = (
                "this kernel has no bridges or veth pairs" if lacks_links else os.strerror(-code)
            )
            raise OSError(-code, reason)


def _link(index: int = 0, *, up: bool = False) -> bytes:
    return struct.pack("BxHiII", socket.AF_UNSPEC, 0, index, _IFF_UP if up else 0, _IFF_UP)


def _route(target: str, via: str, link: str) -> bytes:
    host, _, bits = target.partition("/")
    head = struct.pack("BBBBBBBBI", socket.AF_INET, int(bits), 0, 0, *_KIND, _RTNH_F_ONLINK)
    gateway = _attribute(_RTA_GATEWAY, socket.inet_aton(via))
    way = _attribute(_RTA_OIF, struct.pack("I", socket.if_nametoindex(link)))
    destination = _attribute(_RTA_DST, socket.inet_aton(host)) if int(bits) else b""
    return head + destination + gateway + way


def _name(name: str) -> bytes:
    return _attribute(_IFLA_IFNAME, name.encode() + b"\0")


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)
