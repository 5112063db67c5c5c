"""Engines as processes that start within milliseconds and are killed with SIGKILL.

`python -m benchmarks.proxy.engine_farm`: each line of stdin starts an engine, whose process ID and
port are the line of stdout; all of them end with stdin. `python -m ... proxy PORT...` is a proxy.
"""

import asyncio
import os
import signal
import socket
import sys
import time
from contextlib import suppress

from aiohttp import web

SMALL = b'{"id":"c1","choices":[{"message":{"content":"' + b"word " * 60 + b'"}}]}'
WORK_S = 0.02


def farm() -> None:
    """Fork an engine for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children = []
    for _ in sys.stdin:
        listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        child = os.fork()
        if not child:
            sys.stdin.close()
            with suppress(KeyboardInterrupt):
                asyncio.run(engine(listening))
            os._exit(0)
        children.append(child)
        print(child, listening.getsockname()[1], flush=True)  # noqa: T201 - the answer
        listening.close()
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


async def engine(listening: socket.socket) -> None:
    """Answer until killed."""
    turn = asyncio.Lock()

    async def small(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=SMALL, content_type="application/json")

    async def work(_request: web.Request) -> web.Response:
        async with turn:  # one request at a time, as a chip has it
            await asyncio.sleep(WORK_S)
        return web.Response(body=SMALL, content_type="application/json")

    async def stream(_request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(_request)
        for number in range(5):
            await response.write(b"data: %d\n\n" % number)
            await asyncio.sleep(0.002)
        await response.write(b"data: [DONE]\n\n")
        return response

    async def events(_request: web.Request) -> web.StreamResponse:
        """Events that say when they were sent, by the clock that all processes share."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(_request)
        for _ in range(200):
            await asyncio.sleep(0.005)
            await response.write(b"data: %d\n\n" % time.monotonic_ns())
        return response

    app = web.Application()
    app.router.add_get("/health", small)
    app.router.add_route("*", "/small", small)
    app.router.add_route("*", "/work", work)
    app.router.add_route("*", "/stream", stream)
    app.router.add_get("/events", events)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    await asyncio.Event().wait()


async def proxy(ports: list[int], idle_s: float | None) -> None:
    """A proxy in front of engines at these ports; prints its own port."""
    from client.proxy.engines import standing

    from tpuctl.proxy import replica_connections

    if idle_s is not None:
        replica_connections.PROXY_IDLE_CONNECTION_S = idle_s
    async with standing() as stand:
        for number, port in enumerate(ports, 1):
            stand.add(number, port)
        await stand.routed(*range(1, len(ports) + 1))
        print(os.getpid(), stand.port, flush=True)  # noqa: T201 - the answer
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    if sys.argv[1:2] == ["proxy"]:
        idle = float(os.environ["IDLE_S"]) if "IDLE_S" in os.environ else None
        asyncio.run(proxy([int(port) for port in sys.argv[2:]], idle))
    else:
        farm()
