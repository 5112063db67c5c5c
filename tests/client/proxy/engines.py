"""Engines that answer as they are told to, and a proxy in front of them; all in one process."""

import asyncio
import contextlib
import json
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

import aiohttp
from aiohttp import web

from tpuctl.models.inference.service_record import ReplicaAddress
from tpuctl.proxy.access_control import AccessControl
from tpuctl.proxy.proxy_limits import ProxyLimits
from tpuctl.proxy.proxy_server import ServiceProxy
from tpuctl.proxy.replica_pool import ReplicaTarget

LIMITS = ProxyLimits(
    connect_s=5.0, silence_s=10.0, client_silence_s=10.0, queue_s=10.0,
    probe_pause_s=0.02, probe_s=5.0, probes_back=1,
)  # fmt: skip
SHORT_S = 0.15
"""A deadline that is to pass."""
QUIET = logging.Logger("engine", logging.CRITICAL)
"""An engine that a test stops complains of the answers that it could not send."""
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def address_of(port: int, worker_id: int = 0) -> ReplicaAddress:
    return ReplicaAddress("zone", "node", worker_id, "127.0.0.1", None, port)


async def dial(address: ReplicaAddress) -> socket.socket:
    connection = socket.socket()
    connection.setblocking(False)  # noqa: FBT003
    try:
        await asyncio.get_running_loop().sock_connect(
            connection, (address.ip_address, address.port)
        )
    except BaseException:
        connection.close()
        raise
    return connection


@dataclass
class Engine:
    """An engine whose answers a test steers by events."""

    number: int
    health: int = 200
    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    """What `/gate` waits for."""
    port: int = 0
    paths: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    cancelled: int = 0
    got: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    """Parts of bodies sent to `/upload`."""
    runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_get("/health", self.answer_health)
        app.router.add_get("/gate", self.answer_gate)
        app.router.add_post("/gate", self.answer_gate)
        app.router.add_get("/events", self.stream_events)
        app.router.add_post("/upload", self.take_upload)
        app.router.add_get("/ws", self.talk)
        app.router.add_get("/status/{code}", self.answer_status)
        app.router.add_get("/big", self.send_big)
        app.router.add_route("*", "/{rest:.*}", self.echo)
        self.runner = web.AppRunner(
            app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None, logger=QUIET
        )
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self.runner.addresses[0][1]

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()
            self.runner = None

    async def answer_health(self, _request: web.Request) -> web.Response:
        return web.Response(status=self.health)

    async def answer_status(self, request: web.Request) -> web.Response:
        self.paths[request.path] += 1
        return web.Response(status=int(request.match_info["code"]))

    async def answer_gate(self, request: web.Request) -> web.Response:
        self.paths[request.path] += 1
        self.in_flight += 1
        try:
            await self.is_open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1
        return web.Response(text=str(self.number))

    async def stream_events(self, request: web.Request) -> web.StreamResponse:
        """Events, each only after the gate was opened again."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.in_flight += 1
        try:
            for number in range(int(request.query.get("count", "3"))):
                await response.write(b"data: %d\n\n" % number)
                await self.is_open.wait()
                self.is_open.clear()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1
        return response

    async def take_upload(self, request: web.Request) -> web.Response:
        size = 0
        async for part in request.content.iter_any():
            size += len(part)
            self.got.put_nowait(part)
        return web.Response(text=str(size))

    async def send_big(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(int(request.query["parts"])):
            await response.write(bytes(65536))
            self.paths["parts"] += 1
        return response

    async def talk(self, request: web.Request) -> web.WebSocketResponse:
        """Send back what comes; `close CODE` closes."""
        talk = web.WebSocketResponse(protocols=("v2.tokens", "v1.tokens"), max_msg_size=0)
        await talk.prepare(request)
        self.in_flight += 1
        try:
            async for message in talk:
                if message.type is aiohttp.WSMsgType.BINARY:
                    await talk.send_bytes(message.data)
                elif message.data.startswith("close "):
                    await talk.close(code=int(message.data[6:]), message=b"as you wish")
                else:
                    await talk.send_str(message.data)
            self.got.put_nowait(str(talk.close_code).encode())
        finally:
            self.in_flight -= 1
        return talk

    async def echo(self, request: web.Request) -> web.Response:
        self.paths[request.path] += 1
        body = await request.read()
        headers = [[name, value] for name, value in request.headers.items()]
        told = {
            "engine": self.number, "method": request.method, "target": request.raw_path,
            "headers": headers, "body": body.decode("latin-1"),
        }  # fmt: skip
        answer = web.Response(text=json.dumps(told))
        answer.headers.add("X-Twice", "1")
        answer.headers.add("X-Twice", "2")
        answer.headers["Connection"] = "X-Private"
        answer.headers["X-Private"] = "of this hop"
        return answer


@dataclass
class Stand:
    """A proxy and what is in front of it and behind it."""

    proxy: ServiceProxy
    url: str
    port: int
    session: aiohttp.ClientSession
    lines: list[str]
    targets: dict[int, ReplicaTarget] = field(default_factory=dict)

    def add(self, number: int, port: int) -> None:
        self.targets[number] = ReplicaTarget(number, address_of(port))
        self.proxy.update(list(self.targets.values()))

    def drain(self, number: int) -> None:
        known = self.targets[number]
        self.targets[number] = ReplicaTarget(number, known.address, is_routed=False)
        self.proxy.update(list(self.targets.values()))

    def remove(self, number: int) -> None:
        del self.targets[number]
        self.proxy.update(list(self.targets.values()))

    async def routed(self, *numbers: int) -> None:
        await until(lambda: self.proxy.pool.routed == numbers)

    async def at_rest(self) -> None:
        await until(lambda: not self.proxy.requests_open)
        assert set(self.proxy.pool.in_flight.values()) <= {0}
        assert self.proxy.pool.queued == 0
        assert self.proxy.budget.left_bytes == self.proxy.limits.held_bytes


async def until(is_true: Callable[[], bool]) -> None:
    """Wait until something is so; a test that waits in vain ends by its own deadline."""
    while not is_true():
        await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def proxied(
    engines: int = 1, limits: ProxyLimits = LIMITS, token: str | None = None, tls=None
) -> AsyncIterator[tuple[Stand, list[Engine]]]:
    """A proxy with so many engines, all of them ready."""
    started = [Engine(number) for number in range(1, engines + 1)]
    for engine in started:
        await engine.start()
    try:
        async with standing(limits, token, tls) as stand:
            for engine in started:
                stand.add(engine.number, engine.port)
            await stand.routed(*(engine.number for engine in started))
            yield stand, started
            await stand.at_rest()
    finally:
        for engine in started:
            engine.is_open.set()
            await engine.stop()


@contextlib.asynccontextmanager
async def standing(
    limits: ProxyLimits = LIMITS, token: str | None = None, tls=None, drain_s: float = 5.0, way=dial
) -> AsyncIterator[Stand]:
    """A proxy without a replica."""
    lines: list[str] = []
    proxy = ServiceProxy(way, limits, AccessControl(token), lines.append, random=Random(1))
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    async with proxy.serve(listening, tls, drain_s), aiohttp.ClientSession() as session:
        yield Stand(proxy, url, port, session, lines)


@contextlib.asynccontextmanager
async def raw_engine(answer: Answer) -> AsyncIterator[int]:
    """A server whose answers to all but probes a function writes by hand; yields its port."""
    tasks: set[asyncio.Task] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /health "):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            else:
                await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


async def send_raw(port: int, data: bytes, *, ends: bool = True) -> bytes:
    """Everything that the proxy sends back for these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        await writer.drain()
        if ends:
            writer.write_eof()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
