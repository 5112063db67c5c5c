"""Run a command and record what it says to the Cloud TPU API, and what it is told.

tpuctl records its own calls. gcloud, and whatever else follows its endpoint override, is sent
through a proxy on loopback that hands every request on as it came, credentials included, and
keeps none of them.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tpuctl import config
from tpuctl.api import cassette
from tpuctl.api.cassette import Cassette
from tpuctl.config import Context
from tpuctl.errors import NotFoundError, TpuctlError, UsageError

TIMEOUT_S = 120.0
MOST_BYTES = 16 * 1024 * 1024
_OF_THE_API = re.compile(r"/(v\d\w*|\$discovery)/")
_HOP_BY_HOP = frozenset(
    {"host", "connection", "keep-alive", "transfer-encoding", "accept-encoding", "te", "upgrade"}
)


def record_traffic(
    argv: Sequence[str],
    to: Path,
    context: Context,
    environ: Mapping[str, str],
    now: Callable[[], float],
) -> tuple[int, int]:
    """Run a command and write its redacted calls to a new file; its exit code and their number.

    Raises ConflictError when the file exists, NotFoundError when there is no such program.
    """
    tape = cassette.create(to, now(), context.project)
    with recording_proxy(context.tpu_rest_endpoint, tape, now) as proxy:
        ours = {
            config.RECORD_VARIABLE: str(to.absolute()),
            config.TPU_OVERRIDE: f"{proxy}/",
            "TPUCTL_CONTEXT": context.name,
        }
        try:
            code = record_command(argv, {**environ, **ours})
        except TpuctlError:  # nothing ran, nothing is in the file
            to.unlink()
            raise
    return code, cassette.count_calls(to)


def record_command(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """The command's exit code; raises NotFoundError when there is no such program."""
    try:
        child = subprocess.Popen(argv, env=environ)
    except FileNotFoundError:
        raise NotFoundError(f"there is no program {argv[0]!r}") from None
    except OSError as error:
        raise UsageError(f"cannot run {argv[0]!r}: {error.strerror}") from error
    code = _wait(child)
    return 128 - code if code < 0 else code


@contextmanager
def recording_proxy(upstream: str, tape: Cassette, now: Callable[[], float]) -> Iterator[str]:
    """The base URL of a proxy for `upstream` (a base URL) while the block runs."""
    server = _Server(upstream, tape, now)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Wait for the child's exit code; SIGTERM is passed on, Ctrl-C reaches the child anyway."""
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt as stop:
            if type(stop) is not KeyboardInterrupt:
                child.terminate()


class _Server(ThreadingHTTPServer):
    """The proxy's server, with the upstream URL and the file that calls are written to."""

    daemon_threads = True

    def __init__(self, upstream: str, tape: Cassette, now: Callable[[], float]) -> None:
        super().__init__(("127.0.0.1", 0), _ProxyHandler)
        self.upstream = upstream
        self.tape = tape
        self.now = now


class _ProxyHandler(BaseHTTPRequestHandler):
    """Sends one request on, and records the call."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """Handle a request; every method is handled alike."""
        called_s = self.server.now()
        length = self.headers.get("Content-Length", "0")
        if self._is_foreign() or not length.isdecimal() or int(length) > MOST_BYTES:
            self.close_connection = True
            self._answer(403, {}, b"refused\n")
            return
        body = self.rfile.read(int(length))
        headers = dict(self.headers.items())
        upstream = self.server.upstream
        try:
            status, shown, reply = _forward(upstream, self.command, self.path, headers, body)
        except (OSError, http.client.HTTPException) as error:
            self._answer(502, {}, f"{upstream} does not answer: {error}\n".encode())
            return
        if _OF_THE_API.match(self.path):  # what else comes by, a token's grant say, is private
            entry = {"request": _parse_json(body), "status": status, "response": _parse_json(reply)}
            self.server.tape.add(f"rest {self.command} {self.path}", called_s, entry)
        self._answer(status, shown, reply)

    do_POST = do_PATCH = do_DELETE = do_PUT = do_GET

    def log_message(self, *_: Any) -> None:
        """Print nothing: the command's own output is all that is shown."""

    def _is_foreign(self) -> bool:
        """A web page cannot forge Host, nor hide Origin; a body in chunks cannot be measured."""
        own = f"127.0.0.1:{self.server.server_port}"
        is_plain = self.path.startswith("/") and "Transfer-Encoding" not in self.headers
        return not is_plain or self.headers.get("Host") != own or "Origin" in self.headers

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _forward(
    upstream: str, method: str, path: str, headers: Mapping[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    address = urlsplit(upstream)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=TIMEOUT_S)
    kept = {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
    try:
        connection.request(method, address.path.rstrip("/") + path, body or None, kept)
        reply = connection.getresponse()
        content = reply.read()
    finally:
        connection.close()
    wanted = {"content-type", "www-authenticate", "retry-after"}
    shown = {name: value for name, value in reply.getheaders() if name.lower() in wanted}
    return reply.status, shown, content


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None
