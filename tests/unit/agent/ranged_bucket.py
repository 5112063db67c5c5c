"""Cloud Storage as a fetcher sees it: objects with a generation, read in ranges, over real HTTP."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = {"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"}


class RangedBucket(ThreadingHTTPServer):
    """`objects` by (name, generation); a reply takes the last of `refusals` or `cuts`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[tuple[str, int], bytes] = {}
        self.requests: list[tuple[str, int, int]] = []
        self.authorizations: set[str | None] = set()
        self.cuts: list[int] = []
        self.refusals: list[tuple[int, dict[str, str]]] = []
        """Statuses and headers."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: RangedBucket
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path.startswith("/computeMetadata/"):
            return self.answer(200, json.dumps(TOKEN).encode())
        self.server.authorizations.add(self.headers["Authorization"])
        if self.server.refusals:
            status, headers = self.server.refusals.pop()
            error = {"error": {"message": "not now"}}
            return self.answer(status, json.dumps(error).encode(), headers)
        name = unquote(asked.path.rpartition("/o/")[2])
        if name.endswith(":access"):
            return self.answer(200, b'{"payload": {}}')
        generation = int(parse_qs(asked.query).get("generation", ["7"])[0])
        body = self.server.objects.get((name, generation))
        if body is None:
            return self.answer(404, b'{"error": {"message": "No such object"}}')
        if "Range" not in self.headers:
            return self.answer(200, body)
        start, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        self.server.requests.append((name, start, end + 1))
        return self.answer(206, body[start : end + 1])

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.refusals:
            status, headers = self.server.refusals.pop()
            return self.answer(status, b"", headers)
        return self.answer(200, b"{}")

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status == 206 and self.server.cuts:
            self.wfile.write(body[: self.server.cuts.pop()])
            self.close_connection = True
            return
        self.wfile.write(body)

    def log_message(self, *_args) -> None:
        pass


@contextmanager
def ranged_bucket() -> Iterator[RangedBucket]:
    server = RangedBucket()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
