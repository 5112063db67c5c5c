"""Ports that lead to ports behind a real SSH server, which may go away and come back."""

import asyncio
import socket
from contextlib import asynccontextmanager

import asyncssh
import pytest

from tpuctl.api.ssh.tunnels import WorkerTunnels
from tpuctl.api.ssh.worker_shell import Shell
from tpuctl.errors import LocalIOError, PreemptedError, TransientError, UsageError
from tpuctl.operations.workers import forwarding
from tpuctl.operations.workers.forwarding import PortForward, forward, listen, parse_ports

KEY = asyncssh.generate_private_key("ssh-ed25519")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(forwarding, "FIRST_PAUSE_S", 0.0)


class Door(asyncssh.SSHServer):
    """Lets everybody in, and through to `allowed`."""

    def __init__(self, world):
        self.world = world

    def connection_made(self, conn):
        self.world.connections.append(conn)

    def begin_auth(self, username):
        return False

    def connection_requested(self, dest_host, dest_port, orig_host, orig_port):
        assert dest_host == "localhost"
        if dest_port not in self.world.allowed:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "no")
        return True


class World:
    """A worker with an echo on a port, and what was told."""

    def __init__(self):
        self.connections = []
        self.told = asyncio.Queue()
        self.down = None
        self.allowed = set()

    def ready(self):
        self.told.put_nowait("ready")

    def lost(self, why):
        self.told.put_nowait(f"lost: {why}")

    def back(self):
        self.told.put_nowait("back")

    def refused(self, why):
        self.told.put_nowait(f"refused: {why}")

    async def hears(self):
        async with asyncio.timeout(10):
            return await self.told.get()

    @asynccontextmanager
    async def connect(self):
        if self.down:
            raise self.down
        port = self.acceptor.get_port()
        connected = asyncssh.connect("127.0.0.1", port, known_hosts=None, config=None)
        async with connected as connection, Shell(0, connection) as shell:
            yield WorkerTunnels(shell)


@asynccontextmanager
async def world():
    """A worker that can be reached, with `port` of this machine leading to its echo."""
    found = World()
    echo = await asyncio.start_server(_echo, "127.0.0.1", 0)
    found.remote = echo.sockets[0].getsockname()[1]
    found.allowed = {found.remote, 1}
    found.acceptor = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=lambda: Door(found), server_host_keys=[KEY]
    )
    with listen([PortForward(0, 0, found.remote), PortForward(0, 0, 1)], "again") as listeners:
        found.port, found.closed_port = (port.local_port for port, _ in listeners)
        found.task = asyncio.create_task(forward(listeners, found.connect, found))
        try:
            yield found
        finally:
            found.task.cancel()
            await asyncio.gather(found.task, return_exceptions=True)
            found.acceptor.close()
            echo.close()


async def _echo(reader, writer):
    data = await reader.read()  # to its end: the other half stays open
    writer.write(data.upper())
    writer.close()


async def said(port, data):
    """What comes back for `data` over a new connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


def test_bytes_go_both_ways_and_each_half_is_closed_by_itself():
    async def main():
        async with world() as worker:
            assert await worker.hears() == "ready"
            large = b"abc" * 500_000
            answers = await asyncio.gather(*(said(worker.port, large) for _ in range(3)))
            assert answers == [large.upper()] * 3

    asyncio.run(main())


def test_a_connection_that_breaks_is_made_again():
    async def main():
        async with world() as worker:
            assert await worker.hears() == "ready"
            worker.connections[0].abort()
            assert await worker.hears() == "lost: the connection broke"
            assert await worker.hears() == "back"
            assert await said(worker.port, b"again") == b"AGAIN"

    asyncio.run(main())


def test_who_connects_while_the_worker_is_away_waits_for_it():
    async def main():
        async with world() as worker:
            await worker.hears()
            worker.down = TransientError("no route")
            worker.connections[0].abort()
            await worker.hears()
            waiting = asyncio.create_task(said(worker.port, b"hello"))
            worker.down = None
            assert await waiting == b"HELLO"

    asyncio.run(main())


def test_a_port_that_is_not_open_is_told_once_in_a_row():
    async def main():
        async with world() as worker:
            await worker.hears()
            assert await said(worker.closed_port, b"x") == b""
            assert await said(worker.closed_port, b"x") == b""
            assert (await worker.hears()).startswith("refused: worker 0 port 1: ")
            worker.allowed.clear()
            await said(worker.port, b"x")
            remote = worker.remote
            expected = f"refused: worker 0 port {remote}: its SSH server forwards nothing"
            assert await worker.hears() == expected

    asyncio.run(main())


def test_a_node_that_was_taken_away_ends_it():
    async def main():
        async with world() as worker:
            await worker.hears()
            worker.down = PreemptedError("node 'n1' is PREEMPTED")
            worker.connections[0].abort()
            with pytest.raises(PreemptedError):
                await asyncio.wait_for(worker.task, 10)

    asyncio.run(main())


def test_what_cannot_be_reached_at_first_is_an_error():
    async def main():
        found = World()
        found.down = TransientError("no route")
        with listen([PortForward(0, 0, 1)], "again") as ports, pytest.raises(TransientError):
            await forward(ports, found.connect, found)

    asyncio.run(main())


def test_a_port_in_use_is_refused_and_the_others_are_let_go():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wanted = [PortForward(0, 0, 8888), PortForward(0, port, 8888)]
        with (
            pytest.raises(LocalIOError) as refusal,
            listen(wanted, "tpuctl node forward n1"),
        ):
            pass
    assert str(refusal.value) == f"cannot listen on 127.0.0.1:{port}: address already in use"
    assert refusal.value.hint.endswith("tpuctl node forward n1 0:8888")


@pytest.mark.parametrize(
    ("spec", "expected"), [("8888", (8888, 8888)), ("1:65535", (1, 65535)), ("0:80", (0, 80))]
)
def test_ports_are_one_number_or_two(spec, expected):
    (one,) = parse_ports(0, [spec])
    assert (one.local_port, one.remote_port) == expected


@pytest.mark.parametrize("spec", ["", "0", "x", "1:", ":1", "65536", "1:2:3", "-1", "8888:0", "²"])
def test_what_is_no_port_is_refused(spec):
    with pytest.raises(UsageError):
        parse_ports(0, [spec])


def test_a_port_of_this_machine_leads_to_one_place():
    with pytest.raises(UsageError):
        parse_ports(0, ["8888", "8888:9999"])
