"""The way to a port of a worker, by what the dialer leaves open."""

import asyncio
import socket
from types import SimpleNamespace

import pytest

from tpuctl.api.ssh import routes
from tpuctl.api.ssh.worker_ports import WorkerPorts
from tpuctl.errors import NotFoundError, TransientError
from tpuctl.models.inference.service_record import ReplicaAddress

ADDRESS = ReplicaAddress("zone", "node", 1, "10.0.0.2", "34.0.0.2", 8000)


class Tunnels:
    """An SSH connection to a worker."""

    def __init__(self):
        self.is_closed = False

    async def dial(self, _port):
        async def read():
            return b""

        return SimpleNamespace(read=read, write=read, close=lambda: None)

    def close(self):
        self.is_closed = True


class Dialed(WorkerPorts):
    """Ports whose inside is a list of results, and whose logins are counted."""

    def __init__(self, dialer, monkeypatch, inside=(), logins=()):
        super().__init__(SimpleNamespace(dialer=dialer))
        self.asked, self.opened = [], []
        self._inside, self._logins = list(inside), list(logins)
        monkeypatch.setattr(routes, "shared_route", lambda _access: self)

    async def __aexit__(self, *error):
        self._route = None
        await super().__aexit__(*error)

    async def _open(self, address, _log_in):
        try:
            return await self._opened()
        finally:
            self._ended_s[address] = asyncio.get_running_loop().time()

    async def _opened(self):
        await asyncio.sleep(0)
        if self._logins and (error := self._logins.pop(0)):
            raise error
        self.opened.append(Tunnels())
        return self.opened[-1]

    async def dial(self, address, port=None):
        """Both the dialer's own method and that of its route."""
        if port is None:
            return await super().dial(address, None)
        self.asked.append((address.ip_address, port))
        if error := self._inside.pop(0):
            raise TransientError("worker 1: cannot reach it") from error
        return socket.socket()


def ways(dialer, monkeypatch, times=3, **more):
    """How often each way was gone, for several connections at once and one after the other."""

    async def scenario():
        results = []
        async with Dialed(dialer, monkeypatch, **more) as ways:
            for _ in range(times):
                try:
                    (await ways.dial(ADDRESS)).close()
                    results.append("ok")
                except (TransientError, NotFoundError) as error:
                    results.append(type(error).__name__)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        return len(ways.asked), len(ways.opened), results

    return asyncio.run(scenario())


@pytest.mark.parametrize("dialer", ["internal", "socks5://127.0.0.1:1", "jump://host"])
def test_inside_the_network_the_port_itself_is_reached(dialer, monkeypatch):
    assert ways(dialer, monkeypatch, inside=[None] * 3) == (3, 0, ["ok"] * 3)


@pytest.mark.parametrize("dialer", ["direct", "iap"])
def test_from_outside_one_ssh_connection_leads_to_the_port(dialer, monkeypatch):
    assert ways(dialer, monkeypatch) == (0, 1, ["ok"] * 3)


def test_where_there_is_no_way_inside_ssh_leads_to_the_port(monkeypatch):
    assert ways("internal", monkeypatch, inside=[OSError("host unreachable")]) == (1, 1, ["ok"] * 3)


def test_an_engine_that_refuses_or_hangs_is_asked_for_by_no_other_way(monkeypatch):
    errors = [ConnectionRefusedError("connection refused"), TimeoutError()]
    found = ways("internal", monkeypatch, times=2, inside=errors)
    assert found == (2, 0, ["TransientError"] * 2)


def test_after_a_login_that_failed_the_next_one_waits(monkeypatch):
    found = ways("direct", monkeypatch, logins=[NotFoundError("no such node")])
    assert found == (0, 0, ["NotFoundError"] * 3)


def test_connections_at_once_share_a_login_and_a_lost_one_is_made_again(monkeypatch):
    async def scenario():
        async with Dialed("direct", monkeypatch) as ways:
            for each in await asyncio.gather(*(ways.dial(ADDRESS) for _ in range(5))):
                each.close()
            assert len(ways.opened) == 1
            ways.opened[0].is_closed = True
            ways._ended_s.clear()  # it was a while ago
            (await ways.dial(ADDRESS)).close()
            assert len(ways.opened) == 2
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ways.opened[1].is_closed

    asyncio.run(scenario())
