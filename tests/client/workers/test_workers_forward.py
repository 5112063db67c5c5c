"""Connections onward from a worker over SSH: what `ssh -L` and `tpuctl node forward` ask for."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from client.workers.worker_fixtures import NAME, ONE, SPEC, run, vpc

SERVER = """
import socket, sys
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    with connection:
        while data := connection.recv(65536):
            connection.sendall(data)
        connection.sendall(b'.')
"""


@asynccontextmanager
async def echoing(worker: asyncssh.SSHClientConnection, address: str = "127.0.0.1"):
    """The port of a program on the worker that sends back what it gets, and a dot at the end."""
    async with worker.create_process(f'exec python3 -c "{SERVER}" {address}') as process:
        yield int(await process.stdout.readline())
        process.terminate()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_of_the_worker_s_own_loopback_is_reached(tmp_path: Path, isolation: str, host: str):
    sent = bytes(range(256)) * 4096

    async def test() -> None:
        async with (
            vpc(tmp_path, ONE, mode=isolation) as here,
            here.ssh() as worker,
            echoing(worker) as port,
        ):
            reader, writer = await worker.open_connection(host, port)
            writer.write(sent)
            writer.write_eof()  # the other way stays open
            assert await reader.read() == sent + b"."
            writer.close()

    run(test)


def test_a_local_port_leads_many_clients_there_at_once(tmp_path: Path):
    async def talk(port: int, text: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    async def test() -> None:
        async with (
            vpc(tmp_path, ONE) as here,
            here.ssh() as worker,
            echoing(worker) as port,
        ):
            listener = await worker.forward_local_port("127.0.0.1", 0, "127.0.0.1", port)
            talks = (talk(listener.get_port(), b"%d" % n) for n in range(8))
            assert await asyncio.gather(*talks) == [b"%d." % n for n in range(8)]
            listener.close()

    run(test)


@pytest.mark.parametrize(
    ("host", "port"),
    [("127.0.0.1", 1), ("127.0.0.1", 65536), ("127.0.0.1", 2**32 - 1), ("no.such.name", 80)],
)
def test_what_does_not_answer_is_refused_and_harms_nothing(tmp_path: Path, host: str, port: int):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            with pytest.raises(asyncssh.ChannelOpenError) as refused:
                await worker.open_connection(host, port)
            assert refused.value.code == asyncssh.OPEN_CONNECT_FAILED
            assert (await worker.run("echo up")).stdout == "up\n"

    run(test)


def test_a_worker_that_shares_this_machine_leads_nowhere_else(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            for host in ("10.128.0.2", "169.254.169.254", "192.0.2.1"):
                with pytest.raises(asyncssh.ChannelOpenError, match="cannot be reached"):
                    await worker.open_connection(host, 80)

    run(test)


def test_a_worker_of_its_own_leads_to_its_peers_by_name_and_not_to_this_machine(
    tmp_path: Path, namespaces
):
    async def test() -> None:
        async with (
            vpc(tmp_path, SPEC, mode="namespace") as here,
            here.ssh("10.128.0.2") as worker,
            here.ssh("10.128.0.3") as peer,
            echoing(peer, "0.0.0.0") as port,
        ):
            name = here.identities["10.128.0.3"].hostname
            for host in (name, "10.128.0.3"):
                reader, writer = await worker.open_connection(host, port)
                writer.write_eof()
                assert await reader.read() == b"."
                writer.close()
            with pytest.raises(asyncssh.ChannelOpenError):
                await worker.open_connection("127.0.0.1", port)
            with pytest.raises(asyncssh.ChannelOpenError):  # the simulator's own proxy
                await worker.open_connection("127.0.0.1", here.proxy.port)

    run(test)


def test_a_connection_ends_with_its_worker(tmp_path: Path, isolation: str):
    async def test() -> None:
        async with (
            vpc(tmp_path, ONE, mode=isolation) as here,
            here.ssh() as worker,
            echoing(worker) as port,
        ):
            reader, writer = await worker.open_connection("127.0.0.1", port)
            writer.write(b"a")
            assert await reader.read(1) == b"a"
            await here.slices.destroy(NAME)
            with pytest.raises(asyncssh.ConnectionLost):
                await asyncio.wait_for(reader.read(), 5)

    run(test)
