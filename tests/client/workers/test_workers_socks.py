"""The VPC's SOCKS5 port: what it lets through and how it refuses the rest."""

import asyncio
import ipaddress
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from client.workers.worker_fixtures import NAME, ONE, dial, exchange, run, vpc

GREETING = b"\x05\x01\x00"
TO_WORKER = b"\x05\x01\x00\x01\x0a\x80\x00\x02" + struct.pack("!H", 22)


@pytest.mark.parametrize(
    ("address", "port", "reply"),
    [
        ("10.128.0.2", 23, 4),
        ("10.128.0.77", 22, 4),
        ("10.127.0.1", 80, 4),
        ("127.0.0.1", 22, 2),
        ("169.254.169.254", 80, 2),
        ("8.8.8.8", 53, 2),
    ],
)
def test_only_doors_of_workers_can_be_reached(tmp_path: Path, address: str, port: int, reply: int):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            with pytest.raises(ConnectionRefusedError) as refused:
                await dial(here.proxy.port, address, port)
            assert refused.value.args == (reply,)

    run(test)


def test_an_address_spelled_as_a_name_is_served_and_a_name_is_not(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            for name, reply in ((b"10.128.0.2", 0), (b"localhost", 4), (b"\xff", 4)):
                request = b"\x05\x01\x00\x03" + bytes([len(name)]) + name + struct.pack("!H", 22)
                client, replies = await exchange(here.proxy.port, GREETING, 2, request, 10)
                client.close()
                assert replies[1][1] == reply

    run(test)


@pytest.mark.parametrize(
    ("request_bytes", "reply"),
    [
        (b"\x05\x02\x00\x01\x0a\x80\x00\x02\x00\x16", b"\x05\x07"),  # BIND
        (b"\x05\x03\x00\x01\x0a\x80\x00\x02\x00\x16", b"\x05\x07"),  # UDP ASSOCIATE
        (b"\x05\x01\x00\x04" + bytes(16) + b"\x00\x16", b"\x05\x08"),  # IPv6
        (b"\x04\x01\x00\x01\x0a\x80\x00\x02\x00\x16", b""),  # another protocol
    ],
)
def test_other_requests_get_their_reply_code(tmp_path: Path, request_bytes: bytes, reply: bytes):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            client, replies = await exchange(here.proxy.port, GREETING, 2, request_bytes, 10)
            client.close()
            assert replies[1][:2] == reply

    run(test)


@pytest.mark.parametrize(
    ("greeting", "answer"),
    [(b"\x05\x01\x02", b"\x05\xff"), (b"GET / HTTP/1.1\r\n\r\n", b""), (b"\x05", b"")],
)
def test_a_hostile_or_slow_greeting_ends_the_connection(
    tmp_path: Path, greeting: bytes, answer: bytes
):
    async def test() -> None:
        async with vpc(tmp_path, ONE, handshake_s=0.2) as here:
            try:
                client, replies = await exchange(here.proxy.port, greeting, 3)
                client.close()
            except ConnectionResetError:
                replies = [b""]
            assert replies[0] == answer

    run(test)


def test_bytes_flow_both_ways_and_end_with_the_worker(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            client, replies = await exchange(
                here.proxy.port, GREETING, 2, TO_WORKER, 10, b"SSH-2.0-test\r\n", 8
            )
            assert replies[2] == b"SSH-2.0-"
            await here.slices.destroy(NAME)
            client.close()
            with pytest.raises(ConnectionRefusedError):
                await dial(here.proxy.port, "10.128.0.2")

    run(test)


def test_what_is_sent_before_the_answers_is_not_lost(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            at_once = GREETING + TO_WORKER + b"SSH-2.0-test\r\n"
            client, (replies,) = await exchange(here.proxy.port, at_once, 2 + 10 + 8)
            # The server's key exchange comes only when it has the client's version.
            await asyncio.get_running_loop().sock_recv(client, 100)
            client.close()
            assert replies == b"\x05\0" + b"\x05\0\0\x01" + bytes(6) + b"SSH-2.0-"

    run(test)


def test_any_port_of_a_worker_of_its_own_is_reached_and_none_of_others(tmp_path: Path, namespaces):
    spec = replace(ONE, external_addresses=("198.18.0.9",))
    server = "import socket; s = socket.create_server(('', 8470)); print('up', flush=True)"
    echo = "c, _ = s.accept(); c.sendall(c.recv(9)[::-1])"

    async def test() -> None:
        async with vpc(tmp_path, spec, mode="namespace") as here, here.ssh() as worker:
            for address in ("10.128.0.2", "198.18.0.9"):
                process = await worker.create_process(f'python3 -c "{server}; {echo}"')
                assert await process.stdout.readline() == "up\n"
                to_worker = b"\x05\x01\x00\x01" + ipaddress.ip_address(address).packed + b"\x21\x16"
                client, replies = await exchange(
                    here.proxy.port, GREETING, 2, to_worker, 10, b"hello", 5
                )
                client.close()
                assert replies[1:] == [b"\x05\0\0\x01" + bytes(6), b"olleh"]
                assert (await process.wait()).exit_status == 0
            with pytest.raises(ConnectionRefusedError) as refused:
                await dial(here.proxy.port, "10.128.0.2", 8470)
            assert refused.value.args == (5,)

    run(test)
