"""The way out of the VPC: to port 443 of the open internet, and nowhere else."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
from client.workers.worker_fixtures import run

from localsim.services.net.proxy import Proxy, is_public

PUBLIC = "93.184.215.14"
NEAR = [
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
    *("169.254.169.254", "224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1"),
    *("::1", "::", "fe80::1", "fc00::1", "fd12::1", "ff02::1", "::ffff:10.0.0.1", "::127.0.0.1"),
    *("2002:7f00:1::", "64:ff9b::7f00:1", "2001:db8::1", "::ffff:93.184.215.14", "fec0::1"),
]


@asynccontextmanager
async def proxy(names: dict[str, list[str]], *, most: int = 8):
    """`ask(bytes) -> reader, writer`, and what was connected to; names lead to an echo."""
    reached: list[tuple[str, int]] = []

    async def resolve(host: str) -> list[str]:
        if host not in names:
            raise OSError(-2, "Name or service not known")
        return names[host]

    async def connect(address: str, port: int) -> socket.socket:
        reached.append((address, port))
        if address == "203.0.113.1":
            raise ConnectionRefusedError(111, "Connection refused")
        connection = socket.socket()
        connection.settimeout(0)
        await asyncio.get_running_loop().sock_connect(connection, echo.sockets[0].getsockname())
        return connection

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"echo " + await reader.read(100))
        writer.close()

    echo = await asyncio.start_server(answer, "127.0.0.1", 0)
    served = Proxy(resolve, connect, most=most)
    listening = socket.create_server(("127.0.0.1", 0))
    where = listening.getsockname()
    served.open(listening)

    async def ask(request: bytes):
        reader, writer = await asyncio.open_connection(*where)
        writer.write(request)
        return reader, writer

    try:
        yield ask, reached
    finally:
        await served.close()
        echo.close()
        await echo.wait_closed()


def test_bytes_flow_to_the_address_that_was_checked(tmp_path):
    async def test() -> None:
        async with proxy({"pypi.org": ["10.0.0.1", PUBLIC]}) as (ask, reached):
            request = b"CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\n\r\n"
            reader, writer = await ask(request)
            assert (
                await reader.readuntil(b"\r\n\r\n")
                == b"HTTP/1.1 200 Connection established\r\n\r\n"
            )
            writer.write(b"hello")
            assert await reader.read() == b"echo hello"
            writer.close()
            reader, writer = await ask(request + b"early")  # sent before the answer
            assert (await reader.read()).endswith(b"echo early")
            writer.close()
            assert reached == [(PUBLIC, 443)] * 2

    run(test)


@pytest.mark.parametrize(
    ("request_bytes", "status", "reason"),
    [
        (b"CONNECT pypi.org:80 HTTP/1.1\r\n\r\n", 403, b"port 443 alone"),
        (b"CONNECT pypi.org:22 HTTP/1.1\r\n\r\n", 403, b"port 443 alone"),
        (b"CONNECT pypi.org HTTP/1.1\r\n\r\n", 403, b"port 443 alone"),
        (b"CONNECT near.example:443 HTTP/1.1\r\n\r\n", 403, b"is not a public address"),
        (b"CONNECT [fe80::1%25eth0]:443 HTTP/1.1\r\n\r\n", 400, b"does not name a host"),
        (b"CONNECT :443 HTTP/1.1\r\n\r\n", 400, b"does not name a host"),
        (b"CONNECT nowhere.example:443 HTTP/1.1\r\n\r\n", 502, b"has no address"),
        (b"GET http://pypi.org/ HTTP/1.1\r\n\r\n", 405, b"CONNECT alone"),
        (b"\x16\x03\x01\r\n\r\n", 400, b"not a request"),
        (b"CONNECT a\nb\x80:443 HTTP/1.1\r\n\r\n", 502, b" a?b? has no address"),
        (b"CONNECT " + b"a" * 9000, 400, b"too long"),
    ],
)
def test_everything_else_is_refused_with_a_reason(request_bytes, status, reason):
    async def test() -> None:
        names = {"pypi.org": [PUBLIC], "near.example": ["10.0.0.1", "::1"]}
        async with proxy(names) as (ask, reached):
            reader, writer = await ask(request_bytes)
            answer = await reader.read()
            writer.close()
            line = answer.partition(b"\r\n")[0]
            assert line.startswith(b"HTTP/1.1 %d " % status)
            assert reason in line  # of a refused CONNECT clients show nothing else
            assert reached == []

    run(test)


def test_the_next_address_is_tried_and_a_failure_is_told(tmp_path):
    async def test() -> None:
        names = {"two.example": ["203.0.113.1", PUBLIC], "one.example": [PUBLIC]}
        async with proxy(names) as (ask, reached):
            reader, writer = await ask(b"CONNECT two.example:443 HTTP/1.1\r\n\r\n")
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            writer.close()
            assert [address for address, _ in reached] == [PUBLIC]  # documentation's is not public

    run(test)


def test_connections_are_bounded(tmp_path):
    async def test() -> None:
        async with proxy({"pypi.org": [PUBLIC]}, most=1) as (ask, _):
            first, kept = await ask(b"CONNECT pypi.org:443 HTTP/1.1\r\n\r\n")
            assert b" 200 " in await first.readuntil(b"\r\n\r\n")
            reader, writer = await ask(b"CONNECT pypi.org:443 HTTP/1.1\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
            writer.close()
            kept.close()

    run(test)


@pytest.mark.parametrize("address", NEAR)
def test_what_is_near_is_not_public(address: str):
    assert not is_public(address)


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:4700::1111"])
def test_the_open_internet_is(address: str):
    assert is_public(address)
