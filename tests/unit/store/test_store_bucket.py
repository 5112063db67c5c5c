"""What only a bucket has: a wire that loses replies and damages bytes, and Google's own errors."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tpuctl.errors import (
    CredentialsError,
    IntegrityError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PreconditionError,
    TransientError,
    UsageError,
)
from tpuctl.store import Buffers, open_store

pytest_plugins = ("unit.store.served_bucket",)


class Wire(requests.adapters.HTTPAdapter):
    """Passes requests on, and does to the replies what the test says."""

    def __init__(self, reply):
        super().__init__()
        self.reply = reply
        self.sent = []

    def send(self, request, **arguments):
        self.sent.append(request)
        response = super().send(request, **arguments)
        try:
            return self.reply(len(self.sent), request, response)
        except requests.ConnectionError:
            response.content  # noqa: B018 (read, so that its connection is not left open)
            raise


@pytest.fixture
def wired(served, new_bucket):
    """A store on a new bucket whose replies pass through a function."""

    def make(reply):
        name, _ = new_bucket()
        client = served.client()
        wire = Wire(reply)
        client._http.mount("http://", wire)
        return open_store(f"gs://{name}", client=client), wire

    return make


def is_write(request):
    return request.method == "POST" and "/upload/" in request.url


def test_a_write_whose_reply_was_lost_is_known_to_have_succeeded(wired):
    def lose_the_first_write(count, request, response):
        if is_write(request) and not lost:
            lost.append(request)
            raise requests.ConnectionError("reset by peer")
        return response

    lost = []
    store, wire = wired(lose_the_first_write)
    entry = store.put_if_absent("a", b"1")
    assert len([request for request in wire.sent if is_write(request)]) == 2
    assert store.head("a") == entry


@pytest.mark.usefixtures("short_patience")
def test_somebody_elses_object_is_not_taken_for_the_own_one(wired, served):
    def somebody_is_faster(count, request, response):
        if is_write(request):
            raise requests.ConnectionError("reset by peer")
        return response

    store, _ = wired(somebody_is_faster)
    other = open_store(store.url, client=served.client())
    other.put_if_absent("a", b"theirs")
    with pytest.raises((PreconditionError, TransientError)):
        store.put_if_absent("a", b"ours")
    assert other.get_range("a") == b"theirs"


def test_memory_whose_reply_was_lost_is_known_to_have_been_written(wired):
    def lose_the_first_write(count, request, response):
        if is_write(request) and not lost:
            lost.append(request)
            raise requests.ConnectionError("reset by peer")
        return response

    lost = []
    store, wire = wired(lose_the_first_write)
    entry = store.put_if_absent("a", Buffers([memoryview(b"123")], 2))
    assert len([request for request in wire.sent if is_write(request)]) == 2
    assert store.head("a") == entry


def test_memory_that_changes_on_its_way_is_refused_by_the_server(wired):
    """The checksums come first: a bucket never holds other bytes than were checksummed."""
    store, wire = wired(lambda count, request, response: response)
    data = bytearray(b"123")
    source = Buffers([memoryview(data)], 2)
    assert source.block_values
    data[0] ^= 1
    with pytest.raises(UsageError, match="(?i)crc32c"):
        store.put_if_absent("a", source)
    assert store.head("a") is None


def test_a_buffer_is_filled_on_after_the_connection_was_cut(wired):
    def cut_the_first_read(count, request, response):
        if "/download/" in request.url and not cut:
            cut.append(request)
            read, response.raw.read = response.raw.read, lambda *_, **__: short.pop(0)
            short = [read(4), b""]
        return response

    cut = []
    store, wire = wired(cut_the_first_read)
    entry = store.put_if_absent("a", b"0123456789")
    buffer = memoryview(bytearray(8))
    store.read_into("a", 1, buffer, generation=entry.generation)
    assert bytes(buffer) == b"12345678"
    asked = [request.headers["Range"] for request in wire.sent if "/download/" in request.url]
    assert asked == ["bytes=1-8", "bytes=5-8"]


@pytest.mark.usefixtures("short_patience")
def test_when_not_even_the_read_back_answers_the_outcome_is_unknown(wired):
    def dead(count, request, response):
        raise requests.ConnectionError("reset by peer")

    store, _ = wired(dead)
    with pytest.raises(OutcomeUnknownError, match="may or may not have been written"):
        store.put_if_absent("a", b"1")


def test_bytes_damaged_on_the_way_are_found(wired):
    def damage(count, request, response):
        if "/download/" in request.url:
            body = response.raw.read()
            response.raw._fp = None
            flipped = bytes([body[0] ^ 1]) + body[1:]
            response.raw.stream = lambda *_, **__: iter([flipped])
            response.raw.read = lambda *_, **__: flipped
        return response

    store, _ = wired(damage)
    store.put_if_absent("a", b"123")
    with pytest.raises(IntegrityError):
        store.get_range("a")


def test_every_write_names_a_generation_and_a_checksum(wired):
    store, wire = wired(lambda count, request, response: response)
    entry = store.put_if_absent("a", b"1")
    store.put_if_generation("a", b"2", entry.generation)
    store.delete("a")
    changes = [request for request in wire.sent if request.method != "GET"]
    assert len(changes) == 3
    assert all("ifGenerationMatch=" in request.url for request in changes)
    assert all(b"crc32c" in b"".join(request.body) for request in changes[:2])


def test_a_bucket_that_is_not_there_is_not_found(served):
    store = open_store("gs://nowhere/runs", client=served.client())
    with pytest.raises(NotFoundError):
        store.put_if_absent("a", b"1")
    with pytest.raises(NotFoundError):
        list(store.list())


def test_a_url_without_a_bucket_is_wrong(served):
    with pytest.raises(UsageError, match="does not name a bucket"):
        open_store("gs://", client=served.client())


@pytest.fixture
def answering():
    """A service that gives one status to everything."""
    servers = []

    def start(status):
        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_GET = do_POST = do_DELETE = do_PUT = answer

            def log_message(self, *arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        client = storage.Client(
            "p", AnonymousCredentials(), client_options={"api_endpoint": endpoint}
        )
        servers.append((server, thread, client))
        return open_store("gs://box", client=client)

    yield start
    for server, thread, client in servers:
        client.close()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize(
    ("status", "error"),
    [(401, CredentialsError), (403, PermissionDeniedError), (404, NotFoundError)]
    + [(412, PreconditionError), (400, UsageError), (429, TransientError), (503, TransientError)],
)
def test_googles_errors_become_ours(answering, status, error):
    store = answering(status)
    with pytest.raises(error, match="gs://box/a: "):
        store.delete("a", generation=1) if status != 404 else store.get_range("a")


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize(
    ("status", "error"),
    [(401, CredentialsError), (403, PermissionDeniedError), (412, PreconditionError)]
    + [(400, UsageError), (503, OutcomeUnknownError)],
)
def test_they_do_so_of_memory_that_is_put(answering, status, error):
    with pytest.raises(error, match="gs://box/a"):
        answering(status).put_if_absent("a", Buffers([memoryview(b"1")], 1))


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize(
    ("status", "error"),
    [(403, PermissionDeniedError), (404, NotFoundError), (416, IntegrityError)]
    + [(400, UsageError), (503, TransientError)],
)
def test_they_do_so_of_a_buffer_that_is_filled(answering, status, error):
    with pytest.raises(error, match="gs://box/a: "):
        answering(status).read_into("a", 0, memoryview(bytearray(1)), generation=1)
