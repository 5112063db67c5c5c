"""A connection to a replica whose machine vanishes without a word breaks within a minute."""

import socket

from tpuctl.proxy.replica_connections import keep_alive


def test_the_system_asks_whether_the_other_end_is_there():
    with socket.socket() as connected:
        keep_alive(connected)
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        options = ("TCP_KEEPINTVL", "TCP_KEEPCNT")
        values = [connected.getsockopt(socket.IPPROTO_TCP, getattr(socket, o)) for o in options]
        assert values == [10, 3]


def test_a_stream_through_ssh_is_left_to_ssh():
    near, far = socket.socketpair()
    with near, far:
        keep_alive(near)
        assert not near.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
