"""A supervisor asks an engine behind a firewall through SSH, as its proxy does."""

import asyncio
from types import SimpleNamespace

from tpuctl.api.ssh.keys import Access
from tpuctl.api.ssh.worker_connections import WorkerConnections
from tpuctl.config import Context
from tpuctl.jobs.backends import build_backends
from tpuctl.jobs.services import readiness
from tpuctl.models.node import Node, Worker

WORKER = Worker(0, "192.0.2.1", "192.0.2.2")  # addresses that lead nowhere (RFC 5737)
NODE = Node("n1", "us-west4-a", 1, "v5litepod-1", "", "READY", "spot", 0.0, workers=(WORKER,))


def test_an_engine_behind_a_firewall_is_asked_through_ssh(tmp_path, monkeypatch):
    logins, writers = [], []

    async def open_connection(_host, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        return reader, writer

    async def open_in_gang(_connections, node, worker):
        """A login to the machine that this test runs on."""
        logins.append((node.name, worker.ip_address))
        connection = SimpleNamespace(open_connection=open_connection, is_closed=lambda: False)
        return SimpleNamespace(worker_id=0, connection=connection)

    async def engine(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def scenario():
        access = Access("me", tmp_path / "key", "ssh-ed25519 x", "direct")
        dial = build_backends(
            Context("lab", "p", "us-west4-a", "b"), store=None, tpu=None, access=access,
            open_store=None,
        ).dial_port  # fmt: skip
        server = await asyncio.start_server(engine, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            for _ in range(3):
                assert await readiness.is_ready(dial, NODE, WORKER, port, "/health")
            for writer in writers:
                writer.close()
                await writer.wait_closed()

    monkeypatch.setattr(WorkerConnections, "open_in_gang", open_in_gang)
    asyncio.run(scenario())
    assert logins == [("n1", "192.0.2.1")]
