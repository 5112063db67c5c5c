"""The guard refuses before anything runs."""

import asyncio
import gc

import pytest
from aiohttp import web

from localsim.services.net.request_guard import grpc_refusal, guard

HOSTS = frozenset({"127.0.0.1:80", "localhost:80"})


def status_and_runs(head: str) -> tuple[int, int]:
    """Send one request head to a guarded application; how it answered, how often it ran."""

    async def exchange() -> tuple[int, int]:
        runs: list[str] = []

        async def handler(request: web.Request) -> web.Response:
            runs.append(request.path)
            return web.Response()

        app = web.Application(middlewares=[guard(hosts=lambda: HOSTS)])
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            reply = await answer(runner.addresses[0], f"{head}\r\nConnection: close\r\n\r\n")
        finally:
            await runner.cleanup()
            await asyncio.sleep(0)  # the turn in which the connections' sockets are closed
        return int(reply.split()[1]), len(runs)

    try:
        return asyncio.run(exchange())
    finally:
        gc.collect(1)  # what was left open is this test's fault, not a later one's


async def answer(address: tuple[str, int], request: str) -> bytes:
    """Everything that the server sends back before it closes."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(request.encode())
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:80",
        "POST /a%2Fb?c HTTP/1.1\r\nHost: LOCALHOST:80",
        "GET / HTTP/1.1\r\nHost: localhost:80\r\nSec-Fetch-Site: none",
        "GET / HTTP/1.1\r\nHost: localhost:80\r\nSec-Fetch-Site: same-origin",
    ],
)
def test_programs_come_in(head):
    assert status_and_runs(head) == (200, 1)


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1\r\nHost: evil.example",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:81",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:80.evil.example",
        "GET / HTTP/1.0",
        "GET /missing HTTP/1.1\r\nHost: evil.example",
        "POST / HTTP/1.1\r\nHost: localhost:80\r\nOrigin: http://localhost:80",
        "POST / HTTP/1.1\r\nHost: localhost:80\r\nOrigin: null",
        "OPTIONS / HTTP/1.1\r\nHost: localhost:80\r\nOrigin: https://evil.example",
        "GET / HTTP/1.1\r\nHost: localhost:80\r\nSec-Fetch-Site: cross-site",
        "GET / HTTP/1.1\r\nHost: localhost:80\r\nSec-Fetch-Site: same-site",
        "GET http://localhost:80/ HTTP/1.1\r\nHost: localhost:80",
        "OPTIONS * HTTP/1.1\r\nHost: localhost:80",
        "GET / HTTP/1.1\r\nHost: [::1]:80",
        "GET / HTTP/1.1\r\nHost: [::ffff:127.0.0.1]:80",
        "GET / HTTP/1.1\r\nHost: 0.0.0.0:80",
        "GET / HTTP/1.1\r\nHost: 2130706433:80",
        "GET / HTTP/1.1\r\nHost: user@localhost:80",
        "GET / HTTP/1.1\r\nHost: localhost.:80",
        "GET / HTTP/1.1\r\nHost:",
        "POST / HTTP/1.1\r\nHost: localhost:80\r\nX-HTTP-Method-Override: DELETE",
        "POST / HTTP/1.1\r\nHost: localhost:80\r\nX-Method-Override: GET",
    ],
)
def test_the_others_are_refused_unheard(head):
    assert status_and_runs(head) == (403, 0)


def test_two_hosts_are_no_host():
    head = "GET / HTTP/1.1\r\nHost: localhost:80\r\nHost: evil.example"
    status, runs = status_and_runs(head)
    assert status in (400, 403)
    assert runs == 0


@pytest.mark.parametrize(
    ("metadata", "is_refused"),
    [
        ((), False),
        ((("user-agent", "grpc-node-js/1.9"), ("x-goog-request-params", "name=x")), False),
        ((("sec-fetch-site", "none"),), False),
        ((("sec-fetch-site", "cross-site"),), True),
        ((("origin", "null"),), True),
        ((("host", "localhost:80"),), True),
    ],
)
def test_a_call_of_grpc_with_the_marks_of_a_browser_is_refused(metadata, is_refused):
    assert (grpc_refusal(metadata) is not None) == is_refused
