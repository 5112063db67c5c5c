from pathlib import Path

import pytest

from localsim.workers import free_ports


def test_chosen_ports_are_free_and_distinct():
    chosen = free_ports.choose_ports(50, taken=())
    assert len(set(chosen)) == 50
    assert free_ports.are_free(chosen)


def test_a_port_that_is_listened_on_is_not_free():
    with free_ports.listen() as listening:
        port = listening.getsockname()[1]
        assert not free_ports.are_free([port])


def test_ports_that_are_taken_or_listened_on_are_not_chosen():
    with free_ports.listen() as listening:
        busy = listening.getsockname()[1]
        first, second, third = free_ports.choose_ports(3, taken=())
        candidates = iter([busy, first, second, second, third])
        chosen = free_ports.choose_ports(2, {first}, lambda _start, _stop: next(candidates))
    assert chosen == (second, third)


def test_no_outgoing_connection_takes_a_chosen_port():
    start, stop = free_ports.PORTS
    assert all(start <= port < stop for port in free_ports.choose_ports(50, taken=()))
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if limits.exists():
        assert stop <= int(limits.read_text().split()[0])


def test_where_hardly_any_port_is_free_it_says_so():
    with pytest.raises(OSError, match="no 1 free ports from 20000 to 32768"):
        free_ports.choose_ports(1, {20_000}, lambda start, _stop: start)
