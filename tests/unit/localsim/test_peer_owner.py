"""To whom the other end of a connection belongs, as Linux tells it in two ways."""

import os
import socket
import sys
from contextlib import closing

import pytest

from localsim import loopback, peer_owner

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells it")
BOTH = pytest.mark.parametrize("lookup", [peer_owner.ask_kernel, peer_owner.read_table])


@pytest.fixture(
    params=[("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "::ffff:127.0.0.1"), ("::1", "::1")]
)
def ends(request):
    """A connection's near and far end: IPv4, an IPv6 socket that speaks IPv4, and IPv6."""
    here, there = request.param
    if ":" in there and not loopback.has_ipv6():
        pytest.skip("no IPv6 here")
    family, far_family = (
        socket.AF_INET6 if ":" in each else socket.AF_INET for each in (here, there)
    )
    with (
        socket.create_server((here, 0), family=family) as listening,
        socket.socket(far_family) as far,
    ):
        far.connect((there, listening.getsockname()[1]))
        near, _ = listening.accept()
        with near:
            yield near, far


@BOTH
def test_it_is_the_user_who_opened_it_for_as_long_as_it_is_open(ends, lookup):
    near, far = ends
    peer, own = near.getpeername()[:2], near.getsockname()[:2]
    assert lookup(peer, own) == os.geteuid()
    far.shutdown(socket.SHUT_WR)  # it has sent all and waits for the answer
    assert lookup(peer, own) == os.geteuid()
    far.close()
    assert lookup(peer, own) is None


@BOTH
def test_a_socket_that_listens_where_the_other_end_was_is_not_it(lookup):
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_server(("127.0.0.1", 0)) as own,
    ):
        assert lookup(listening.getsockname(), own.getsockname()) is None


def test_a_listening_socket_takes_no_connection_that_nobody_has_any_more():
    with closing(loopback.listen()) as listening:
        with socket.create_connection(listening.getsockname()):
            listening.accept()[0].close()
        socket.create_connection(listening.getsockname()).close()
        with pytest.raises(ConnectionAbortedError):
            listening.accept()
