"""The proxy of a service as commands start it: its address, its token, and what is said of it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.cli.shell.runtime import Runtime

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterator

    from tpuctl.models.inference.service_record import ServiceRecord
    from tpuctl.operations.services.proxying import ProxyRun
    from tpuctl.proxy.proxy_limits import ProxyLimits


@dataclass(frozen=True, slots=True)
class ProxyFiles:
    """Files that a proxy reads once."""

    token: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class OpenedProxy:
    """A proxy that listens, and what runs it until the service is deleted."""

    name: str
    """Of the service."""
    run: ProxyRun
    running: Awaitable[None]


def open_proxy(
    runtime: Runtime,
    find: Callable[[], ServiceRecord],
    listen: str,
    files: ProxyFiles,
    limits: ProxyLimits | None = None,
) -> OpenedProxy:
    """Listen for a service; its URL is printed when the first request can be taken.

    The service is found, or created, once the address is known to be free. Raises what `find` does,
    UsageError, RefusedError without a token, LocalIOError.
    """
    from tpuctl.operations.services import proxy_listening, proxying

    address = proxy_listening.parse_listen_address(listen)
    token = _token(runtime, files.token)
    proxy_listening.require_token(address, token)
    tls = proxy_listening.tls_context(files.certificate, files.key)
    proxy_listening.raise_file_limit()
    listening, given = proxy_listening.listen(address)
    with closed_on_error(listening):
        record = find()
    if not (address.is_loopback or tls):
        runtime.output.warn("requests and the token are not encrypted: add --tls-cert, --tls-key")
    if note := proxying.state_note(record):
        runtime.output.note(note)
    runtime.tpu, runtime.access  # noqa: B018 - made before several threads want them
    run = proxying.ProxyRun(runtime, record.name, runtime.output.note)
    listener = proxying.ProxyListener(listening, token, limits or proxying.make_limits(), tls)

    def show_url() -> None:
        runtime.output.note(f"service {record.name!r}: {given.url(is_tls=tls is not None)}")

    return OpenedProxy(record.name, run, run.serve(listener, show_url))


def find_service(runtime: Runtime, name: str) -> ServiceRecord:
    """The service of that name; raises NotFoundError."""
    from tpuctl.operations.services import proxying

    return proxying.load_service(runtime.store(), name)


@contextmanager
def closed_on_error(listening: socket.socket) -> Iterator[None]:
    """Close a socket where the lines in here fail."""
    try:
        yield
    except BaseException:
        listening.close()
        raise


def _token(runtime: Runtime, file: Path | None) -> str | None:
    """The token of the file, or of the environment; None where there is none."""
    from tpuctl.operations.services import proxy_listening

    if file is not None:
        return proxy_listening.read_token(file)
    return runtime.environ.get(proxy_listening.TOKEN_VARIABLE) or None
