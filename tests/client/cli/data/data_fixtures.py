"""A bucket that a test can look into, and a service that answers what the test says."""

import json
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tpuctl.config import ANONYMOUS, Config, Context, save


@pytest.fixture
def local_bucket(cloud) -> storage.Bucket:
    """The bucket, by Google's own client."""
    client = storage.Client(
        project="p",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": cloud.line["storage"]},
    )
    vars(client).pop("_bucket_metadata_cache", None)  # no look-ups in the background
    yield client.bucket("local-bucket")
    client.close()


@pytest.fixture
def three_files(tmp_path):
    """Three files to send: small, a MiB, and empty."""
    root = tmp_path / "tree"
    (root / "deep").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"alpha")
    (root / "deep" / "b.bin").write_bytes(bytes(range(256)) * 4096)
    (root / "empty").write_bytes(b"")
    return root


class Between:
    """A proxy before Cloud Storage; `refuse` says which requests get 403 instead of an answer."""

    def __init__(self, storage_url: str) -> None:
        self.seen: list[str] = []
        self.refuse: Callable[[str], bool] = lambda _: False
        self.rewrite: dict[str, str] = {}
        """What is asked for in other words."""
        between = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                line = f"{self.command} {self.path}"
                between.seen.append(line)
                if between.refuse(line):
                    error = {"error": {"code": 403, "message": "the test says no"}}
                    self.reply(403, {}, json.dumps(error).encode())
                    return
                there = HTTPConnection(storage_url.removeprefix("http://"), timeout=20)
                headers = dict(self.headers) | {"Host": storage_url.removeprefix("http://")}
                path = self.path
                for asked, instead in between.rewrite.items():
                    path = path.replace(asked, instead)
                there.request(self.command, path, body, headers)
                answer = there.getresponse()
                data = answer.read()
                there.close()
                self.reply(answer.status, dict(answer.headers), data)

            def reply(self, status: int, headers: dict, data: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = do_PUT = pass_on

            def log_message(self, *arguments) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def between(cloud) -> Iterator[Between]:
    """A context `between` whose requests the test sees and can refuse."""
    found = Between(cloud.line["storage"])
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    context = Context(
        "between", "p", "us-west4-a", "local-bucket", credentials=ANONYMOUS,
        storage_endpoint=found.url,
    )  # fmt: skip
    save(cloud.home, Config(None, {"between": context}))
    yield found
    (cloud.home / "config.yaml").unlink()
    found.server.shutdown()
    found.server.server_close()
    thread.join()
