"""Cloud Storage and a metadata server as the agent sees them: real HTTP over a directory store."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tpuctl.errors import NotFoundError, PreconditionError
from tpuctl.store import Store, open_store

TOKEN = {"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"}


class BucketServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, store: Store) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = store
        self.preempted = False
        self.authorizations: set[str | None] = set()
        self.uploads: list[str] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"


class Handler(BaseHTTPRequestHandler):
    server: BucketServer

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path.startswith("/computeMetadata/v1/"):
            return self.metadata(path.removeprefix("/computeMetadata/v1/"))
        self.server.authorizations.add(self.headers["Authorization"])
        bucket, _, key = path.removeprefix("/storage/v1/b/").partition("/o/")
        try:
            return self.answer(200, self.server.store.get_range(unquote(key)))
        except NotFoundError:
            return self.answer(404, b"{}")

    def do_POST(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        self.server.authorizations.add(self.headers["Authorization"])
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert query["uploadType"] == ["multipart"]
        assert query["ifGenerationMatch"] == ["0"]
        boundary = b"--" + self.headers["Content-Type"].partition("boundary=")[2].encode()
        _, head, media, end = body.split(boundary, 3)
        assert end == b"--\r\n"
        name = json.loads(head.partition(b"\r\n\r\n")[2])["name"]
        try:
            self.server.store.put_if_absent(name, media.partition(b"\r\n\r\n")[2][:-2])
        except PreconditionError:
            return self.answer(412, b"{}")
        self.server.uploads.append(name)
        return self.answer(200, b"{}")

    def metadata(self, path: str) -> None:
        assert self.headers["Metadata-Flavor"] == "Google"
        values = {
            "instance/service-accounts/default/token": json.dumps(TOKEN),
            "instance/preempted": "TRUE" if self.server.preempted else "FALSE",
        }
        self.answer(200 if path in values else 404, values.get(path, "").encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args) -> None:
        pass


@contextmanager
def serving(directory: Path) -> Iterator[BucketServer]:
    server = BucketServer(open_store(str(directory)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
