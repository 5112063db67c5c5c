"""Serves the objects of a step by HTTP, to a library of this process that reads nothing else."""

import contextlib
import re
import secrets
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from tpuctl.errors import TpuctlError
from tpuctl.operations.checkpoints.foreign.step_folder import StepFolder, read_blocks

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class LoopbackServer(ThreadingHTTPServer):
    """A server of GET for the objects of one folder."""

    daemon_threads = True

    def __init__(self, folder: StepFolder) -> None:
        """Listen on a free port of 127.0.0.1."""
        super().__init__(("127.0.0.1", 0), _FolderHandler)
        self.folder = folder
        self.secret = f"/{secrets.token_urlsafe(24)}/"
        self.failure: TpuctlError | None = None
        """What the store said last when it could not be read."""

    @property
    def url(self) -> str:
        """The URL of the folder, without a slash at its end."""
        return f"http://127.0.0.1:{self.server_port}{self.secret}".rstrip("/")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that hung up: nobody waits for the answer."""


@contextlib.contextmanager
def serve_folder(folder: StepFolder) -> Iterator[LoopbackServer]:
    """Serve the folder's objects until the block ends; yields the server."""
    with LoopbackServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _FolderHandler(BaseHTTPRequestHandler):
    server: LoopbackServer

    def do_GET(self) -> None:
        folder, path = self.server.folder, unquote(self.path)
        name = path.removeprefix(self.server.secret)
        if name == path or name not in folder.files:
            self._head(HTTPStatus.NOT_FOUND, 0)
            return
        size = folder.files[name].size_bytes
        start, end = self._range(size)
        try:
            pieces = read_blocks(folder, name, start, end)
            first = next(pieces, b"")
        except TpuctlError as error:
            # Not 404, which would mean that there never was such a chunk, and zeros; nor a status
            # that is tried again: the store has done so.
            self.server.failure = error
            self._head(HTTPStatus.BAD_REQUEST, 0)
            return
        if "Range" in self.headers:
            self._head(HTTPStatus.PARTIAL_CONTENT, end - start, f"bytes {start}-{end - 1}/{size}")
        else:
            self._head(HTTPStatus.OK, size)
        self.wfile.write(first)
        try:
            for piece in pieces:
                self.wfile.write(piece)
        except TpuctlError as error:
            self.server.failure = error

    def _range(self, size: int) -> tuple[int, int]:
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None:
            return 0, size
        return int(match[1]), min(size, int(match[2]) + 1 if match[2] else size)

    def _head(self, status: HTTPStatus, size: int, content_range: str = "") -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(size))
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Print nothing about requests."""
