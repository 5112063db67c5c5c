"""A machine that is gone without a word: its connections stay open, and nothing comes on them."""

import asyncio
import errno
from contextlib import AsyncExitStack
from dataclasses import replace

import aiohttp
import pytest

from client.proxy.engines import LIMITS, dial, raw_engine, standing, until
from tpuctl.errors import CredentialsError, NotFoundError, PreconditionError, TransientError
from tpuctl.proxy.lost_replicas import answers

SOON = replace(LIMITS, lost_s=0.1)
ERROR = b'{"error": {"code": "of the other"}}'
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 35\r\n\r\n" + ERROR
UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
NO_ROUTE = OSError(errno.EHOSTUNREACH, "no route to host")


class Way:
    """A way to engines that can be closed; connections that are there stay as they are."""

    def __init__(self):
        self.closed = {}
        """The port of an engine -> what becomes of a new connection to it."""
        self.refused = 0

    async def dial(self, address):
        if address.port in self.closed:
            self.refused += 1
            raise self.closed[address.port]
        return await dial(address)


class SilentEngine:
    """Takes requests, begins some answers as it is told, and ends none."""

    def __init__(self, beginning=b""):
        self.beginning = beginning
        self.taken = 0

    async def answer(self, _reader, writer):
        self.taken += 1
        writer.write(self.beginning)
        await asyncio.Event().wait()


async def lose(stand, way, port, error=NO_ROUTE):
    """Close the way to an engine that has requests."""
    way.closed[port] = error
    await until(lambda: stand.proxy.pool.routed == ())


def run(engine, scenario, limits=SOON):
    """Play a scenario with a proxy and one engine."""

    async def story():
        way = Way()
        async with AsyncExitStack() as stack:
            port = await stack.enter_async_context(raw_engine(engine.answer))
            stand = await stack.enter_async_context(standing(limits, way=way.dial))
            stand.add(1, port)
            await stand.routed(1)
            await scenario(stand, way, port)
            await stand.at_rest()

    asyncio.run(story())


async def status_of(stand, method="POST"):
    async with stand.session.request(method, stand.url, data=b"x") as answer:
        return answer.status, (await answer.json())["error"]["code"]


def test_a_request_at_a_machine_that_is_gone_is_a_502():
    engine = SilentEngine()

    async def scenario(stand, way, port):
        request = asyncio.create_task(status_of(stand))
        await until(lambda: engine.taken)
        await lose(stand, way, port)
        assert await request == (502, "replica_failed")
        assert "replica 1: its machine has been gone for 0.1 s; 1 requests end" in stand.lines

    run(engine, scenario)


def test_a_request_that_may_be_repeated_goes_to_another_replica():
    engine = SilentEngine()

    async def scenario(stand, way, port):
        request = asyncio.create_task(status_of(stand, "GET"))
        await until(lambda: engine.taken)
        await lose(stand, way, port)
        async with raw_engine(SilentEngine(OK).answer) as second:
            stand.add(2, second)
            assert await request == (200, "of the other")
            stand.remove(2)

    run(engine, scenario)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nsome",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome",
    ],
)
def test_an_answer_that_had_begun_is_broken_for_the_client_too(head):
    engine = SilentEngine(head)

    async def scenario(stand, way, port):
        async with stand.session.get(stand.url) as answer:
            assert await answer.content.readexactly(4) == b"some"
            await lose(stand, way, port)
            with pytest.raises(aiohttp.ClientError):
                await answer.content.read()

    run(engine, scenario)


def test_a_websocket_ends_with_its_machine():
    engine = SilentEngine(b"HTTP/1.1 101 Switching Protocols\r\n" + UPGRADE)

    async def scenario(stand, way, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", stand.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + UPGRADE)
        assert b"101" in await reader.readuntil(b"\r\n\r\n")
        await lose(stand, way, port)
        assert await reader.read() == b""
        writer.close()

    run(engine, scenario)


def test_an_engine_that_has_closed_its_port_finishes_what_it_has():
    engine = SilentEngine()

    async def scenario(stand, way, port):
        request = asyncio.create_task(status_of(stand))
        await until(lambda: engine.taken)
        await lose(stand, way, port, ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
        before = way.refused
        await until(lambda: way.refused > before + 20)
        assert not request.done()
        request.cancel()

    run(engine, scenario, replace(SOON, lost_s=0.0))


def test_requests_end_once_the_record_has_their_replica_no_more():
    engine = SilentEngine()

    async def scenario(stand, _way, _port):
        request = asyncio.create_task(status_of(stand))
        await until(lambda: engine.taken)
        stand.remove(1)
        assert await request == (502, "replica_failed")

    run(engine, scenario)


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_there"),
    [
        (None, True),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), True),
        (caused(TransientError("cannot reach"), ConnectionRefusedError()), True),
        (PreconditionError("port 8000: connection refused"), True),  # through SSH
        (OSError(errno.EMFILE, "too many open files"), True),
        (CredentialsError("no credentials"), True),
        (NO_ROUTE, False),
        (TimeoutError(), False),
        (caused(TransientError("cannot reach"), TimeoutError()), False),
        (NotFoundError("there is no node"), False),
    ],
)
def test_whether_a_machine_is_there(error, is_there):
    class Connected:
        def close(self):
            self.is_closed = True

    connected = Connected()

    async def way(_address):
        if error is not None:
            raise error
        return connected

    assert asyncio.run(answers(way, None, 1.0)) is is_there
    assert hasattr(connected, "is_closed") is (error is None)
