"""A small SSH server that stands for a worker or a jump host, and what leads there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh

from tpuctl.api.ssh.keys import Access, load_access
from tpuctl.models.node import Node, Worker

WORKER = Worker(0, "127.0.0.1")
NODE = Node(
    name="n1",
    zone="us-west4-a",
    node_id=77,
    accelerator_type="v5litepod-4",
    runtime_version="v2-alpha-tpuv5-lite",
    state="READY",
    provisioning="spot",
    created_s=1000.0,
    workers=(WORKER,),
)


def ours(home: Path, dialer: str = "internal") -> Access:
    return load_access(home, dialer)


def public(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key().decode().split()[:2])


@asynccontextmanager
async def ssh_server(
    key: asyncssh.SSHKey, authorized: str, **options: object
) -> AsyncIterator[int]:
    """Its port; it says `hello` to whoever may come in."""

    async def hello(process: asyncssh.SSHServerProcess) -> None:
        process.stdout.write("hello\n")
        process.exit(0)

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[key],
        authorized_client_keys=asyncssh.import_authorized_keys(authorized),
        process_factory=hello,
        **options,
    )
    try:
        yield server.get_port()
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0)
