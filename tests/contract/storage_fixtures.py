"""Cloud Storage on a real socket: in a thread, or as a process for the tests that kill it."""

import asyncio
import gc
import http.client
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from localsim.clock import Clock
from localsim.cloud.database import open_database
from localsim.cloud.objects import ObjectStore
from localsim.services.guard import guard
from localsim.services.storage import application


@dataclass
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


@dataclass
class Service:
    port: int
    clients: list = field(default_factory=list)

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

    def raw(self, data: bytes) -> bytes:
        """Bytes out, everything until the server closes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))


async def serve(directory: Path, ready, stopped: asyncio.Event) -> None:
    connection = open_database(directory / "state.db")
    app = application(ObjectStore(connection, directory / "storage", Clock()))
    hosts: set[str] = set()
    app.middlewares.append(guard(hosts=lambda: frozenset(hosts)))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    hosts |= {f"127.0.0.1:{port}", f"localhost:{port}"}
    try:
        ready(port)
        await stopped.wait()
    finally:
        await runner.cleanup()
        connection.close()
        await asyncio.sleep(0)  # the turn in which the connections' sockets are closed


@contextmanager
def running(directory: Path) -> Iterator[Service]:
    ports: list[int] = []
    started = threading.Event()
    stop: list = []

    async def main() -> None:
        stopped = asyncio.Event()
        stop.append((asyncio.get_running_loop(), stopped))
        await serve(directory, lambda port: (ports.append(port), started.set()), stopped)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert started.wait(20)
    service = Service(ports[0])
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

    def start(self) -> Service:
        command = [sys.executable, __file__, str(self.directory)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        service = Service(int(self.process.stdout.readline()))
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
        found.directory = tmp_path
        yield found


@pytest.fixture
def bucket(storage_service) -> storage.Bucket:
    return storage_service.client().create_bucket("box")


@pytest.fixture
def killable(tmp_path) -> Iterator[Killable]:
    killable = Killable(tmp_path)
    yield killable
    killable.close()


def main() -> None:
    def announce(port: int) -> None:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()

    async def forever() -> None:
        await serve(Path(sys.argv[1]), announce, asyncio.Event())

    asyncio.run(forever())


if __name__ == "__main__":
    main()
