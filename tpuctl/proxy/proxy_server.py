"""The server of a proxy: its port, its connections, and its end."""

import asyncio
import contextlib
import logging
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from random import Random
from socket import socket as Socket

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from tpuctl.network_policy import PROXY_DRAIN_S
from tpuctl.proxy.access_control import AccessControl
from tpuctl.proxy.error_answers import error_body
from tpuctl.proxy.exchange import Exchange, ExchangeParts
from tpuctl.proxy.lost_replicas import LostReplicas
from tpuctl.proxy.proxy_limits import ProxyLimits
from tpuctl.proxy.readiness_probes import ReadinessProbes
from tpuctl.proxy.replica_connections import (
    HEADER_BYTES,
    HEADERS,
    LINE_BYTES,
    READ_BYTES,
    Dial,
    ReplicaSession,
)
from tpuctl.proxy.replica_pool import ReplicaPool, ReplicaTarget
from tpuctl.proxy.request_body import BodyBudget, one_line
from tpuctl.proxy.traffic_counters import TrafficCounters

BACKLOG = 1024
CLOSE_S = 0.2
"""What is still in flight at the end of a drain is cancelled, and waited for no longer."""
DRAIN_PAUSE_S = 0.05
IDLE_S = 75.0
"""A client's connection without a whole request is closed then, the first one included."""
LINGER_S = 2.0
"""For so long the rest of a request is read and thrown away, so that its client sees the answer."""


class _ClientConnection(RequestHandler):
    """A connection of a client; a request that cannot be read gets its error as JSON."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a request that cannot be read, or that raised an error; logs a line."""
        text = reading_error(exc) if exc is not None else (message or "")
        self.logger.warning("%s: %s", "bad request" if status == 400 else "error", text)
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer was sent already")
        code = "bad_request" if status == 400 else "proxy_error"
        body = error_body(code, text, "invalid_request_error" if status == 400 else "server_error")
        response = web.Response(
            status=status, body=body, content_type="application/json", headers={"Server": "tpuctl"}
        )
        response.force_close()
        return response


def reading_error(error: BaseException) -> str:
    """What is wrong with a request, without the bytes of it, among which may be a token."""
    text = getattr(error, "message", "") or one_line(error)
    return one_line(ValueError(text.partition(": b'")[0].partition(' b"')[0].partition(":\n")[0]))


class _ClientServer(web.Server):
    """Makes the connections of clients."""

    def __call__(self) -> RequestHandler:
        return _ClientConnection(self, loop=self._loop, **self._kwargs)


@dataclass(slots=True)
class ServiceProxy:
    """A reverse proxy in front of the replicas of one service."""

    dial: Dial
    limits: ProxyLimits
    access: AccessControl
    say: Callable[[str], None]
    monotonic: Callable[[], float] = time.monotonic
    random: Random = field(default_factory=Random)
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex
    counters: TrafficCounters = field(default_factory=TrafficCounters)
    pool: ReplicaPool = field(init=False)
    budget: BodyBudget = field(init=False)
    session: ReplicaSession | None = None
    requests_open: int = 0
    _probes: ReadinessProbes | None = None

    def __post_init__(self) -> None:
        self.budget = BodyBudget(self.limits.held_bytes)
        self.pool = ReplicaPool(self.limits, self.monotonic, self.random, self.say)

    def update(self, targets: list[ReplicaTarget]) -> None:
        """Take the replicas that the service has now."""
        self.pool.update(targets)
        if self._probes is not None:
            self._probes.hurry()

    @contextlib.asynccontextmanager
    async def serve(
        self, listening: Socket, tls: ssl.SSLContext | None = None, drain_s: float = PROXY_DRAIN_S
    ) -> AsyncIterator[None]:
        """Answer requests for the block; at its end those in flight have `drain_s` to finish."""
        session = self.session = ReplicaSession(self.dial, self.limits)
        fresh = ReplicaSession(self.dial, self.limits, reuses=False)
        probes = self._probes = ReadinessProbes(self.pool, fresh, self.limits)
        parts = ExchangeParts(
            self.pool, session, self.limits, self.access, self.counters,
            self.monotonic, self.new_id, self.say, self.budget, probes.hurry,
        )  # fmt: skip
        server = self._make_server(parts)
        loop = asyncio.get_running_loop()
        port = await loop.create_server(server, sock=listening, ssl=tls, backlog=BACKLOG)
        lost = LostReplicas(self.pool, session, self.dial, self.limits, self.monotonic, self.say)
        watching = [asyncio.create_task(each.run()) for each in (probes, lost)]
        try:
            yield
        finally:
            try:
                port.close()
                await self._drain(server, drain_s)
            finally:
                parts.is_ending = True
                for each in watching:
                    each.cancel()
                await server.shutdown(CLOSE_S)
                await session.close()
                await fresh.close()
                await asyncio.sleep(0)  # in which the loop closes the sockets

    def _make_server(self, parts: ExchangeParts) -> web.Server:
        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            self.requests_open += 1
            try:
                return await Exchange(parts, request).answer()
            finally:
                self.requests_open -= 1

        return _ClientServer(
            answer,
            handler_cancellation=True,
            access_log=None,
            logger=_logger(self.say),
            auto_decompress=False,
            keepalive_timeout=IDLE_S,
            lingering_time=LINGER_S,
            read_bufsize=READ_BYTES,
            max_line_size=LINE_BYTES,
            max_field_size=HEADER_BYTES,
            max_headers=HEADERS,
        )

    async def _drain(self, server: web.Server, drain_s: float) -> None:
        """Close idle connections, and wait until no request is in flight."""
        server.pre_shutdown()
        if not self.requests_open:
            return
        self.say(f"{self.requests_open} requests are in flight: waiting at most {drain_s:.0f} s")
        deadline_s = self.monotonic() + drain_s
        while self.requests_open and self.monotonic() < deadline_s:
            await asyncio.sleep(DRAIN_PAUSE_S)


def _logger(say: Callable[[str], None]) -> logging.Logger:
    """What aiohttp reports about connections, one line each."""

    class LineHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            say(record.getMessage() + (f": {one_line(error)}" if error else ""))

    logger = logging.Logger("tpuctl.proxy", logging.WARNING)
    logger.addHandler(LineHandler())
    return logger
