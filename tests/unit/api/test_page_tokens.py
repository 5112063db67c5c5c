"""A list whose page token comes again ends with exit code 50, whichever API it is a list of."""

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest
import requests
from google.cloud.location import locations_pb2

import tpuctl
from tpuctl.agent.job.objects import ObjectClient
from tpuctl.api.service_usage import tpu_limits
from tpuctl.api.tpu.rest import RestApi
from tpuctl.api.tpu.tpu import TpuApi
from tpuctl.api.tpu.versions import V2
from tpuctl.errors import IntegrityError
from tpuctl.page_tokens import read_pages
from tpuctl.store.gcs.bulk import BulkBucket
from tpuctl.store.gcs.json_api import StorageSession

PACKAGE = Path(tpuctl.__file__).parent
LOCATIONS = locations_pb2.ListLocationsResponse
TOKENS = ("a", "b")
"""The service names them in turn, so that no page names the token that it was asked with."""


class EndlessHttp(BaseHTTPRequestHandler):
    """Every answer is an empty page that names another one."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append(urlsplit(self.path).path)
        token = TOKENS[len(self.server.asked) % 2]
        body = json.dumps({"nextPageToken": token}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class EndlessGrpc(grpc.GenericRpcHandler):
    """The same over gRPC."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = details.method.rpartition("/")[2]

        def answer(_request: bytes, _context: object) -> bytes:
            self.asked.append(method)
            token = TOKENS[len(self.asked) % 2]
            is_zones = method == "ListLocations"
            reply = LOCATIONS if is_zones else V2.reply_class(f"{method}Response")
            page: bytes = reply(next_page_token=token).SerializeToString()
            return page

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture(scope="module")
def endless() -> Iterator[tuple[str, TpuApi, list[str]]]:
    """A service over HTTP and gRPC whose lists never end, and the names of what it was asked."""
    asked: list[str] = []
    http = ThreadingHTTPServer(("127.0.0.1", 0), EndlessHttp)
    http.asked = asked
    threading.Thread(target=http.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{http.server_address[1]}"
    server = grpc.server(ThreadPoolExecutor(1), handlers=[EndlessGrpc(asked)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    rest = lambda: RestApi(url, requests.Session())  # noqa: E731
    yield url, TpuApi(channel, "demo", rest=rest), asked
    channel.close()
    server.stop(None)
    http.shutdown()
    http.server_close()


def listers(url: str, tpu: TpuApi):
    """Every list that tpuctl reads, by a name that a failure shows."""
    session = StorageSession(requests.Session(), url)
    return {
        "nodes": tpu.list_nodes,
        "whole nodes": tpu.read_nodes,
        "queued resources": tpu.list_queued_resources,
        "zones": tpu.list_zones,
        "flex-start requests": tpu.flex_starts,
        "quota": lambda: tpu_limits(RestApi(url, requests.Session()), "demo"),
        "objects": lambda: list(BulkBucket("box", session).list(is_ahead=False)),
        "objects, read ahead": lambda: list(BulkBucket("box", session).list()),
    }


def test_every_list_whose_page_token_comes_again_ends_with_exit_50(endless):
    url, tpu, asked = endless
    for name, read in listers(url, tpu).items():
        del asked[:]
        with pytest.raises(IntegrityError, match="the page '[ab]' twice") as raised:
            read()
        assert (name, raised.value.exit_code, len(asked)) == (name, 50, 3)


def test_an_agent_gives_such_a_list_up_as_it_does_whatever_the_bucket_refuses(endless, monkeypatch):
    url, _, asked = endless
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    del asked[:]
    with pytest.raises(OSError, match=r"objects of set/: the service named the page 'b' twice"):
        list(ObjectClient(url, "box").listed("set/"))
    assert len(asked) == 3


def test_a_token_that_comes_back_after_others_is_found_and_a_list_that_ends_is_read_once():
    def pages(following: dict[str, str]) -> list[str]:
        return list(read_pages(lambda token: token, following.get, ValueError, "it"))

    assert pages({"": "a", "a": "b", "b": "c"}) == ["", "a", "b", "c"]
    with pytest.raises(ValueError, match="it: the service named the page 'a' twice"):
        pages({"": "a", "a": "b", "b": "c", "c": "a"})


def test_whatever_sends_a_page_token_reads_its_pages_here():
    """Lists of Google's client libraries would go round for ever: nobody uses them."""
    spelled = re.compile(r"page_?token[\"=]|\.list_blobs\(", re.IGNORECASE)
    wrong = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if spelled.search(text := path.read_text("utf-8")) and "read_pages(" not in text
    ]
    assert wrong == []
