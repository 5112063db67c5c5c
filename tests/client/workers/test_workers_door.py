"""A door that refuses, hangs or is cut off, and comes back."""

import asyncio
import contextlib
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from client.workers.worker_fixtures import ONE, dial, run, vpc
from localsim.workers.ssh_endpoint import SshBehaviour

DEAD = [SshBehaviour.HANGS, SshBehaviour.UNREACHABLE]
SILENCE_S = 0.1


@asynccontextmanager
async def door_of(tmp_path: Path):
    async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
        yield here, here.slices.ssh_endpoint("10.128.0.2", 22), worker


async def banner(client) -> bytes:
    return await asyncio.get_running_loop().sock_recv(client, 8)


def test_one_that_refuses_closes_new_connections_and_keeps_the_old(tmp_path: Path):
    async def test() -> None:
        async with door_of(tmp_path) as (here, door, worker):
            door.behave(SshBehaviour.REFUSES)
            client = await dial(here.proxy.port, "10.128.0.2")
            assert await banner(client) == b""
            client.close()
            assert (await worker.run("echo up")).stdout == "up\n"
            door.behave(SshBehaviour.SERVES)
            async with here.ssh() as again:
                assert (await again.run("echo up")).stdout == "up\n"

    run(test)


def test_one_that_hangs_takes_connections_and_answers_them_when_it_is_back(tmp_path: Path):
    async def test() -> None:
        async with door_of(tmp_path) as (here, door, _):
            door.behave(SshBehaviour.HANGS)
            client = await dial(here.proxy.port, "10.128.0.2")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(banner(client), SILENCE_S)
            door.behave(SshBehaviour.SERVES)
            assert await banner(client) == b"SSH-2.0-"
            client.close()

    run(test)


def test_one_that_is_cut_off_cannot_be_reached(tmp_path: Path):
    async def test() -> None:
        async with door_of(tmp_path) as (here, door, _):
            door.behave(SshBehaviour.UNREACHABLE)
            for port in (22, 8470):
                with pytest.raises(ConnectionRefusedError) as refused:
                    await dial(here.proxy.port, "10.128.0.2", port)
                assert refused.value.args == (4,)

    run(test)


@pytest.mark.parametrize("manner", DEAD)
def test_those_who_are_connected_hear_nothing_and_everything_later(
    tmp_path: Path, manner: SshBehaviour
):
    async def test() -> None:
        async with door_of(tmp_path) as (_, door, worker):
            process = await worker.create_process("read line; echo got $line; exit 3")
            door.behave(manner)
            process.stdin.write("this\n")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(process.stdout.readline(), SILENCE_S)
            door.behave(SshBehaviour.SERVES)
            assert await process.stdout.readline() == "got this\n"
            assert (await process.wait()).exit_status == 3

    run(test)


@pytest.mark.parametrize("manner", DEAD)
def test_a_client_that_has_gone_meanwhile_is_noticed_when_it_is_back(
    tmp_path: Path, manner: SshBehaviour
):
    async def test() -> None:
        async with door_of(tmp_path) as (here, door, worker):
            process = await worker.create_process("echo $$; exec cat >/dev/null")
            pid = await process.stdout.readline()
            door.behave(manner)
            worker.abort()
            door.behave(SshBehaviour.SERVES)
            async with asyncio.timeout(5), here.ssh() as again:
                while (await again.run(f"kill -0 {pid}")).exit_status == 0:
                    pass

    run(test)


@pytest.mark.parametrize("manner", DEAD)
def test_power_ends_even_a_dead_connection(tmp_path: Path, manner: SshBehaviour):
    async def test() -> None:
        async with door_of(tmp_path) as (here, door, worker):
            process = await worker.create_process("sleep 1000")
            door.behave(manner)
            await here.slices.destroy(ONE.name)
            done = await asyncio.wait_for(process.wait(), 5)
            assert (done.exit_status, done.exit_signal) == (None, None)

    run(test)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(70_000),
        b"SSH-2.0-x\r\n" + b"\xff" * 4096,
        b"SSH-1.0-x\r\n",
        b"SSH-2.0-" + b"x" * 9000,
    ],
)
def test_garbage_is_cut_off_and_the_next_client_served(tmp_path: Path, garbage: bytes):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            loop = asyncio.get_running_loop()
            client = await dial(here.proxy.port, "10.128.0.2")
            with contextlib.suppress(ConnectionError):
                await loop.sock_sendall(client, garbage)
                async with asyncio.timeout(5):
                    while await loop.sock_recv(client, 4096):
                        pass
            client.close()
            async with here.ssh() as worker:
                assert (await worker.run("echo up")).stdout == "up\n"

    run(test)
