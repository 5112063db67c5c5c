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
        self.refusals: list[int] = []

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
            error = {"error": {"message": "not now"}}
            return self.answer(self.server.refusals.pop(), json.dumps(error).encode())
        name = unquote(asked.path.rpartition("/o/")[2])
        body = self.server.objects.get((name, int(parse_qs(asked.query)["generation"][0])))
        if body is None:
            return self.answer(404, b'{"error": {"message": "No such object"}}')
        start, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        self.server.requests.append((name, start, end + 1))
        return self.answer(206, body[start : end + 1])

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
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
