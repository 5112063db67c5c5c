"""The ports of one simulated cloud, and the servers on them."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import Any

import grpc
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from localsim import loopback
from localsim.loopback import LOOPBACK, LOOPBACK_6
from localsim.state_directory import ServeError


class _OwnFaults(logging.Filter):
    """Lets the simulator's own faults through, and no malformed request of a stranger."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop records about requests that cannot be parsed."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


HTTP_LOG = logging.getLogger("localsim.http")
"""For an AppRunner's `logger`; who sent what does not parse has been told so already."""
HTTP_LOG.addFilter(_OwnFaults())

PLAIN_PORTS = ("tpu_grpc", "tpu_rest", "storage", "vpc", "control", "neighbours")
TLS_PORTS = ("google_tpu", "google_tpu_rest", "google_storage", "google_token")
TLS_TWINS = {
    "tpu_rest": "google_tpu_rest",
    "storage": "google_storage",
    "neighbours": "google_token",
}
"""Services on an HTTP port -> the port on which the same is served with TLS."""
PORT_LIMIT = 65536
CALL_END_S = 2.0
PORT_TRIES = 10
"""A free port of IPv4 may be taken on IPv6."""
GRPC_OPTIONS = (("grpc.so_reuseport", 0),)
"""Without this a second server could share a port unnoticed."""


class PortTakenError(ServeError):
    """Another process took a port after it was found free."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is in use", 60)


def port_names(*, tls: bool) -> tuple[str, ...]:
    """The names of the ports, in the order of their numbers when these are fixed."""
    return (*PLAIN_PORTS, *TLS_PORTS) if tls else PLAIN_PORTS


def check_first(first: int, wanted: Sequence[str]) -> None:
    """Raise ServeError where the named ports do not all fit from the first on."""
    last_first = PORT_LIMIT - len(wanted)
    if not 1 <= first <= last_first:
        raise ServeError(f"--port must be from 1 to {last_first}, not {first}", 2)


def choose_ports(
    first: int | None, remembered: Mapping[str, int], wanted: Sequence[str]
) -> dict[str, int]:
    """Consecutive ports from `first` on; else those of the last run that are free, or others."""
    if first is None:
        chosen: dict[str, int] = {}
        for name in wanted:
            chosen[name] = _free_port(remembered.get(name, 0), chosen.values())
        return chosen
    found = {name: first + index for index, name in enumerate(wanted)}
    for port in found.values():
        if _free_port(port) != port:
            raise ServeError(f"port {port} is in use or not allowed", 60)
    return found


async def start_grpc(
    handlers: tuple[Any, ...], stack: AsyncExitStack, *, interceptors: Sequence[Any] = ()
) -> int:
    """Serve gRPC until the stack closes, on a free port of loopback, which is returned."""
    server = grpc.aio.server(options=GRPC_OPTIONS, interceptors=interceptors)
    server.add_generic_rpc_handlers(handlers)
    try:
        port = int(server.add_insecure_port(f"{LOOPBACK}:0"))
    except RuntimeError as error:
        raise PortTakenError(0) from error
    await server.start()
    stack.push_async_callback(_stop_grpc, server)
    return port


async def _stop_grpc(server: Any) -> None:
    """Stop a server, and wait for the calls that it cancels.

    `stop` returns before they end, and gRPC prints a traceback for one that the end of the event
    loop cancels a second time.
    """
    await server.stop(None)
    calls = [task for task in asyncio.all_tasks() if _is_grpc_call(task)]
    if calls:
        await asyncio.wait(calls, timeout=CALL_END_S)


def _is_grpc_call(task: "asyncio.Task[Any]") -> bool:
    return getattr(task.get_coro(), "__qualname__", "") == "_schedule_rpc_coro"


async def serve_secure_grpc(
    handlers: tuple[Any, ...],
    port: int,
    stack: AsyncExitStack,
    *,
    certificate: bytes,
    interceptors: Sequence[Any] = (),
) -> None:
    """Serve gRPC with TLS until the stack closes; the certificate and its key are in PEM."""
    server = grpc.aio.server(options=GRPC_OPTIONS, interceptors=interceptors)
    server.add_generic_rpc_handlers(handlers)
    credentials = grpc.ssl_server_credentials([(certificate, certificate)])
    try:
        server.add_secure_port(f"{LOOPBACK}:{port}", credentials)
        if loopback.has_ipv6():
            server.add_secure_port(f"[{LOOPBACK_6}]:{port}", credentials)
    except RuntimeError as error:
        raise PortTakenError(port) from error
    await server.start()
    stack.push_async_callback(_stop_grpc, server)


Wrap = Callable[[Callable[[], asyncio.Protocol]], Callable[[], asyncio.Protocol]]


async def serve_http(
    app: web.Application,
    stack: AsyncExitStack,
    *ports: tuple[int, ssl.SSLContext | None],
    inside: Iterable[socket.socket] = (),
    unpacks: bool = True,
    wrap: Wrap | None = None,
    wrap_tls: Wrap | None = None,
) -> web.Server:
    """Serve one application on several ports, with TLS where there is a context, and on sockets.

    Returns the server, which makes a protocol for any other connection. A body with a
    Content-Encoding is unpacked, unless `unpacks` is false. `wrap` and `wrap_tls` return what makes
    the protocols of connections without and with TLS, given what makes those of HTTP.
    """
    runner = web.AppRunner(
        app, access_log=None, logger=HTTP_LOG, shutdown_timeout=0.1, auto_decompress=unpacks
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    sockets = [(each, tls) for port, tls in ports for each in open_port(port, is_for_all=bool(tls))]
    assert runner.server is not None  # it has been set up
    loop = asyncio.get_running_loop()
    for listening, tls in (*sockets, *((each, None) for each in inside)):
        wrapping = wrap if tls is None else wrap_tls
        if wrapping is None:
            await web.SockSite(runner, listening, ssl_context=tls).start()
            continue
        server = await loop.create_server(wrapping(runner.server), sock=listening, ssl=tls)
        stack.callback(server.close)
    return runner.server


def open_port(port: int, *, is_for_all: bool = False) -> list[socket.socket]:
    """Listening sockets at a port, as of `loopback.listen_everywhere`; raises PortTakenError."""
    try:
        return loopback.listen_everywhere(port, is_for_all=is_for_all)
    except OSError as error:
        raise PortTakenError(port) from error


def _free_port(wanted: int, given: Collection[int] = ()) -> int:
    """The wanted port, or any free one when it is taken or given to another service."""
    for port in (wanted, *(0 for _ in range(PORT_TRIES))):
        with suppress(OSError, OverflowError), ExitStack() as stack:
            sockets = map(stack.enter_context, loopback.listen_everywhere(port))
            found = [int(each.getsockname()[1]) for each in sockets][0]
            if found not in given:
                return found
    raise PortTakenError(wanted)
