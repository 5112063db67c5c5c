"""Cloud Storage on a real socket: in a thread, or as a process for the tests that kill it."""

import asyncio
import gc
import http.client
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from client.storage import storage_process
from client.storage.storage_process import serve
from localsim.clock import Clock
from localsim.services.storage.body_process import BodyProcess

_NUMBERS = itertools.count(1)


@dataclass
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> dict:
        return json.loads(self.body)

    @property
    def error(self) -> dict:
        """What is in the error envelope of the JSON API."""
        assert self.headers["Content-Type"] == "application/json; charset=UTF-8"
        error = json.loads(self.body)["error"]
        assert error["code"] == self.status
        (detail,) = error["errors"]
        assert {"reason", "domain", "message"} <= detail.keys()
        assert detail["message"] == error["message"]
        return error

    @property
    def message(self) -> str:
        """What a refusal without an envelope says: of a download, or of a chunk."""
        assert self.headers["Content-Type"] in (
            "text/html; charset=UTF-8",
            "text/plain; charset=UTF-8",
        )
        return self.body.decode()

    @property
    def reason(self) -> str:
        return self.error["errors"][0]["reason"]


@dataclass
class Service:
    port: int
    directory: Path | None = None
    clients: list = field(default_factory=list)
    loop: asyncio.AbstractEventLoop | None = None
    grpc_port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> storage.Client:
        client = storage.Client(
            project="p",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self.url},
        )
        # Its threads would look buckets up in the background, also when nobody serves any more.
        client._bucket_metadata_cache = None
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def request(self, method, path, body=b"", **headers) -> Reply:
        """One request, its path sent exactly as given; `X_Goog_Hash=` becomes X-Goog-Hash."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, names)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def on_loop(self, action) -> None:
        """Do something on the thread of the server, and wait until it is done."""
        done = threading.Event()
        self.loop.call_soon_threadsafe(lambda: (action(), done.set()))
        assert done.wait(20)

    def raw(self, data: bytes) -> bytes:
        """Bytes out, everything until the server closes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def raw_until_broken(self, data: bytes) -> bytes:
        """The same, where the server may also reset the connection."""
        got = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(data)
            try:
                while data := connection.recv(65536):
                    got += data
            except ConnectionResetError:
                pass
        return got


@dataclass
class Box:
    """A bucket of its own on a server that tests share, spoken to byte by byte."""

    service: Service
    name: str

    @property
    def bucket_path(self) -> str:
        return f"/storage/v1/b/{self.name}"

    @property
    def objects(self) -> str:
        return f"{self.bucket_path}/o"

    @property
    def uploads(self) -> str:
        return f"/upload{self.objects}"

    @property
    def incoming(self) -> list[Path]:
        return list((self.service.directory / "storage" / "incoming").iterdir())

    def request(self, method, path, body=b"", **headers) -> Reply:
        return self.service.request(method, path, body, **headers)

    def upload(self, name, data, query="", **headers) -> Reply:
        path = f"{self.uploads}?uploadType=media&name={name}{query}"
        return self.request("POST", path, data, **headers)

    def media(self, name) -> bytes:
        return self.request("GET", f"{self.objects}/{name}?alt=media").body


@contextmanager
def running(
    directory: Path,
    clock: Clock | None = None,
    receiver: BodyProcess | None = None,
    public_keys: Mapping[str, Sequence] | None = None,
    *,
    with_grpc: bool = False,
) -> Iterator[Service]:
    ports: list[int] = []
    started = threading.Event()
    stop: list = []

    async def main() -> None:
        stopped = asyncio.Event()
        stop.append((asyncio.get_running_loop(), stopped))

        def ready(*both: int) -> None:
            ports.extend(both)
            started.set()

        await serve(directory, ready, stopped, clock, receiver, public_keys, with_grpc=with_grpc)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert started.wait(20)
    service = Service(ports[0], directory, loop=stop[0][0], grpc_port=ports[1])
    try:
        yield service
    finally:
        service.close()
        loop, stopped = stop[0]
        loop.call_soon_threadsafe(stopped.set)
        thread.join(20)
        gc.collect()  # what was left open is this test's fault, not a later one's


class Killable:
    """The service as a process of its own, that ends by SIGKILL and starts again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process: subprocess.Popen | None = None
        self.services: list[Service] = []

    def start(self, *wires: str) -> Service:
        command = [sys.executable, storage_process.__file__, str(self.directory), *wires]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        port, grpc_port = map(int, self.process.stdout.readline().split())
        service = Service(port, grpc_port=grpc_port)
        self.services.append(service)
        return service

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        self.process = None

    def close(self) -> None:
        self.kill()
        for service in self.services:
            service.close()
        gc.collect()


@pytest.fixture
def storage_service(tmp_path) -> Iterator[Service]:
    with running(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def module_storage(tmp_path_factory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("module_storage")) as found:
        yield found


@pytest.fixture
def box(module_storage) -> Box:
    """A bucket that no other test has."""
    return new_box(module_storage)


@pytest.fixture
def tree(module_storage) -> Box:
    """A bucket with folders that no other test has."""
    return new_box(module_storage, **HIERARCHICAL)


UNIFORM = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}
HIERARCHICAL = {**UNIFORM, "hierarchicalNamespace": {"enabled": True}}


def new_box(service: Service, **settings: object) -> Box:
    """A bucket with the settings, under a name that no other test has."""
    box = unmade_box(service)
    reply = make_bucket(box, **settings)
    assert reply.status == 200, reply.body
    return box


def unmade_box(service: Service) -> Box:
    """A name that no bucket has."""
    return Box(service, f"box-{next(_NUMBERS)}")


def make_bucket(box: Box, **settings: object) -> Reply:
    """Make the bucket of a box."""
    body = json.dumps({"name": box.name, **settings}).encode()
    return box.request("POST", "/storage/v1/b?project=p", body)


@pytest.fixture
def until():
    """Wait for what another thread is about to do."""

    def wait(condition) -> None:
        deadline_s = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline_s
            threading.Event().wait(0.005)

    return wait


@pytest.fixture
def own_bucket(module_storage, box) -> storage.Bucket:
    """The same for Google's client."""
    if not module_storage.clients:
        module_storage.client()
    return module_storage.clients[0].bucket(box.name)


@pytest.fixture
def bucket(storage_service) -> storage.Bucket:
    return storage_service.client().create_bucket("box")


@pytest.fixture
def killable(tmp_path) -> Iterator[Killable]:
    killable = Killable(tmp_path)
    yield killable
    killable.close()
