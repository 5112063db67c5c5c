"""A stranger's malformed request is answered and not logged; localsim's own faults are logged."""

import asyncio
import gc

import pytest
from aiohttp import web

from localsim.service_ports import HTTP_LOG

OWN_FAULT = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close"


def answer(head: str) -> bytes:
    """What a server says whose handler reads the body and then breaks."""

    async def handler(request: web.Request) -> web.Response:
        await request.read()
        raise ZeroDivisionError("a fault of its own")

    async def exchange() -> bytes:
        app = web.Application()
        app.router.add_route("*", "/", handler)
        runner = web.AppRunner(app, access_log=None, logger=HTTP_LOG)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection(*runner.addresses[0])
        try:
            writer.write(f"{head}\r\n\r\n".encode("latin-1"))
            return await asyncio.wait_for(reader.read(), 10)
        finally:
            writer.close()
            await runner.cleanup()
            await asyncio.sleep(0)  # the turn in which the connections' sockets are closed

    try:
        return asyncio.run(exchange())
    finally:
        gc.collect()  # what was left open is this test's fault, not a later one's


@pytest.mark.parametrize(
    "head",
    [
        "GET /\xff HTTP/1.1\r\nHost: a",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz",
        "GET / HTTP/1.1\r\nHost: a\r\nX: " + "x" * 10_000,
    ],
)
def test_a_malformed_request_is_not_logged(head, caplog):
    assert int(answer(head).split()[1]) == 400
    assert caplog.records == []


def test_a_fault_of_its_own_is_logged(caplog):
    assert int(answer(OWN_FAULT).split()[1]) == 500
    (record,) = caplog.records
    assert "a fault of its own" in record.exc_text
