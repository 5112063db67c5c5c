"""The ports of one simulated cloud: which, and how something is served on them."""

import logging
import socket
import ssl
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import product
from typing import Any

import grpc
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError


class _OwnFaults(logging.Filter):
    """Lets the simulator's own faults through, and no malformed request of a stranger."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


HTTP_LOG = logging.getLogger("localsim.http")
"""For an AppRunner's `logger`; who sent what does not parse has been told so already."""
HTTP_LOG.addFilter(_OwnFaults())

LOOPBACK = "127.0.0.1"
PLAIN_PORTS = ("tpu_grpc", "tpu_rest", "storage", "vpc", "control", "neighbours")
TLS_PORTS = ("google_tpu", "google_tpu_rest", "google_storage", "google_token")
TLS_TWINS = {
    "tpu_rest": "google_tpu_rest",
    "storage": "google_storage",
    "neighbours": "google_token",
}
"""Services on an HTTP port -> the port on which the same is served with TLS."""
PORT_LIMIT = 65536
GRPC_OPTIONS = (("grpc.so_reuseport", 0),)
"""Without this a second server could share a port unnoticed."""


class ServeError(Exception):
    """Why there is no server; `exit_code` in tpuctl's own numbers."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class PortTakenError(ServeError):
    """Somebody else took a port between the look at it and its opening."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is in use", 60)


def port_names(*, tls: bool) -> tuple[str, ...]:
    """Which ports there are, in the order of their numbers when these are fixed."""
    return (*PLAIN_PORTS, *TLS_PORTS) if tls else PLAIN_PORTS


def check_first(first: int, wanted: Sequence[str]) -> None:
    """Raises RefusedToServe where the named ports do not all fit behind the first."""
    last_first = PORT_LIMIT - len(wanted)
    if not 1 <= first <= last_first:
        raise ServeError(f"--port must be from 1 to {last_first}, not {first}", 2)


def choose_ports(
    first: int | None, remembered: Mapping[str, int], wanted: Sequence[str]
) -> dict[str, int]:
    """Fixed ports when asked for; else those of the last run, as far as they are free."""
    if first is None:
        return {name: _free_port(remembered.get(name, 0)) for name in wanted}
    found = {name: first + index for index, name in enumerate(wanted)}
    for port in found.values():
        if _free_port(port) != port:
            raise ServeError(f"port {port} is in use or not allowed", 60)
    return found


def allowed_hosts(hosts: Iterable[str], ports: Iterable[int]) -> frozenset[str]:
    """Every way in which an honest client writes `Host`."""
    return frozenset(f"{host}:{port}" for host, port in product(hosts, ports))


async def serve_grpc(
    handlers: tuple[Any, ...],
    port: int,
    stack: AsyncExitStack,
    *,
    certificate: bytes = b"",
    interceptors: Sequence[Any] = (),
) -> None:
    """A gRPC server until the stack closes; with TLS when it has a certificate and key (PEM)."""
    server = grpc.aio.server(options=GRPC_OPTIONS, interceptors=interceptors)
    server.add_generic_rpc_handlers(handlers)
    address = f"{LOOPBACK}:{port}"
    try:
        if certificate:
            credentials = grpc.ssl_server_credentials([(certificate, certificate)])
            server.add_secure_port(address, credentials)
        else:
            server.add_insecure_port(address)
    except RuntimeError as error:
        raise PortTakenError(port) from error
    await server.start()
    stack.push_async_callback(server.stop, None)


async def serve_http(
    app: web.Application,
    stack: AsyncExitStack,
    *ports: tuple[int, ssl.SSLContext | None],
    inside: Iterable[socket.socket] = (),
    unpacks: bool = True,
) -> None:
    """One application on several ports, with TLS where there is a context, and on open sockets.

    Bodies with a Content-Encoding come in unpacked, unless the service says what that means.
    """
    runner = web.AppRunner(
        app, access_log=None, logger=HTTP_LOG, shutdown_timeout=0.1, auto_decompress=unpacks
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    for port, tls in ports:
        await open_or_refuse(web.TCPSite(runner, LOOPBACK, port, ssl_context=tls).start(), port)
    for listening in inside:
        await web.SockSite(runner, listening).start()


async def open_or_refuse(opening: Awaitable[Any], port: int) -> Any:
    """What is opened; raises PortTakenError."""
    try:
        return await opening
    except OSError as error:
        raise PortTakenError(port) from error


def _free_port(wanted: int) -> int:
    """The wanted port, or another when it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, wanted))
        except (OSError, OverflowError):
            probe.bind((LOOPBACK, 0))
        found: int = probe.getsockname()[1]
    return found
