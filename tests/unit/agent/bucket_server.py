"""What the agent and the switch of a slice talk to, over real HTTP.

Cloud Storage, Secret Manager, a metadata server, and the one method of Cloud TPU that they call.
"""

import base64
import json
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tpuctl.errors import NotFoundError, PreconditionError
from tpuctl.store import Entry, Store, crc32c, open_store

TOKEN = {"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"}
PAGE = 2
MISSING = {"error": {"code": 404, "status": "NOT_FOUND", "message": "Resource was not found"}}


class BucketServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, store: Store) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = store
        self.metadata = {
            "instance/service-accounts/default/token": json.dumps(TOKEN),
            "instance/preempted": "FALSE",
            "instance/maintenance-event": "NONE",
        }
        self.changed = threading.Condition()
        self.secrets: dict[str, str] = {}
        self.is_away = False
        """The bucket answers 503."""
        self.authorizations: set[str | None] = set()
        self.uploads: list[str] = []
        self.media: list[str] = []

    @property
    def preempted(self) -> bool:
        return self.metadata["instance/preempted"] == "TRUE"

    @preempted.setter
    def preempted(self, value: bool) -> None:
        self.announce("instance/preempted", "TRUE" if value else "FALSE")

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that are gone before their answer: tests kill them."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def announce(self, path: str, value: str) -> None:
        """Change what the metadata server says, and wake those who wait for it."""
        with self.changed:
            self.metadata[path] = value
            self.changed.notify_all()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"


class Handler(BaseHTTPRequestHandler):
    server: BucketServer

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(asked.query).items()}
        if asked.path.startswith("/computeMetadata/v1/"):
            return self.metadata(asked.path.removeprefix("/computeMetadata/v1/"), query)
        self.server.authorizations.add(self.headers["Authorization"])
        if asked.path.startswith("/v1/projects/"):
            return self.secret(unquote(asked.path.removeprefix("/v1/")))
        if self.server.is_away:
            return self.answer(503, b"{}")
        _, _, key = asked.path.removeprefix("/storage/v1/b/").partition("/o/")
        return self.object(unquote(key), query) if key else self.listing(query)

    def object(self, key: str, query: dict[str, str]) -> None:
        entry = self.server.store.head(key)
        try:
            body = self.server.store.get_range(key)
        except NotFoundError:
            return self.answer(404, b"{}")
        if query.get("alt") != "media":
            return self.answer(200, json.dumps({"size": str(len(body))}).encode())
        self.server.media.append(key)
        if "Range" not in self.headers:
            generation = {"x-goog-generation": str(entry.generation)} if entry else {}
            return self.answer(200, body, generation)
        start, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        return self.answer(206, body[start : end + 1])

    def listing(self, query: dict[str, str]) -> None:
        """A page of two."""
        entries = sorted(self.server.store.list(query["prefix"]), key=lambda each: each.key)
        entries = [each for each in entries if each.key > query.get("pageToken", "")]
        page = {"items": [row(each) for each in entries[:PAGE]]} if entries else {}
        more = {"nextPageToken": entries[PAGE - 1].key} if len(entries) > PAGE else {}
        self.answer(200, json.dumps({**page, **more}).encode())

    def secret(self, name: str) -> None:
        found = self.server.secrets.get(name.removesuffix(":access"))
        if found is None:
            text = "Permission 'secretmanager.versions.access' denied"
            return self.answer(403, json.dumps({"error": {"message": text}}).encode())
        sum_ = int.from_bytes(base64.b64decode(crc32c(found.encode())), "big")
        data = {"data": base64.b64encode(found.encode()).decode(), "dataCrc32c": str(sum_)}
        return self.answer(200, json.dumps({"payload": data}).encode())

    def do_POST(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        self.server.authorizations.add(self.headers["Authorization"])
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.is_away:
            return self.answer(503, b"{}")
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

    def do_DELETE(self) -> None:
        """No such queued resource: what a switch that may delete its own is told."""
        self.answer(404, json.dumps(MISSING).encode())

    def metadata(self, path: str, query: dict[str, str]) -> None:
        assert self.headers["Metadata-Flavor"] == "Google"
        values = self.server.metadata
        with self.server.changed:
            if query.get("wait_for_change") == "true":
                wait_s = float(query["timeout_sec"])
                self.server.changed.wait_for(
                    lambda: etag(values[path]) != query["last_etag"], wait_s
                )
        self.answer(200 if path in values else 404, values.get(path, "").encode())

    def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", etag(body.decode("latin-1")))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args) -> None:
        pass


def row(entry: Entry) -> dict[str, str]:
    return {
        "name": entry.key,
        "generation": str(entry.generation),
        "size": str(entry.size_bytes),
        "crc32c": entry.crc32c,
    }


def etag(text: str) -> str:
    return f"{zlib.crc32(text.encode()):x}"


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
