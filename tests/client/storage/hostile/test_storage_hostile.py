"""What web pages, other machines and broken clients try on the storage port has no effect.

It is refused before it is routed, on every wire of the port, which is open on loopback only.
"""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from client.storage.hostile_wire import status
from localsim.server import Settings, serve

pytest_plugins = ("client.storage.storage_fixtures", "client.storage.xml_api.xml_fixtures")

JSON_TYPE = "Content-Type: application/json"
RETRY_TEST = '{"instructions": {"storage.buckets.list": ["return-503"]}}'
BATCH = (
    "--B\r\nContent-Type: application/http\r\n\r\nPOST /storage/v1/b?project=p HTTP/1.1\r\n"
    'Content-Type: application/json\r\nContent-Length: 17\r\n\r\n{"name": "batch"}\r\n--B--\r\n'
)
# What each would do, did it come from a program on this machine.
REQUESTS = {
    "json": ("POST", "/storage/v1/b?project=p", JSON_TYPE, '{"name": "json"}'),
    "delete": ("DELETE", "/storage/v1/b/box/o/kept", JSON_TYPE, ""),
    "media": ("POST", "/upload/storage/v1/b/box/o?uploadType=media&name=m", "X-A: b", "data"),
    "resumable": ("POST", "/upload/storage/v1/b/box/o?uploadType=resumable&name=r", "X-A: b", ""),
    "xml": ("PUT", "/box/x", "X-A: b", "data"),
    "xml-delete": ("DELETE", "/box/kept", "X-A: b", ""),
    "xml-upload": ("POST", "/box/x?uploads", "X-A: b", ""),
    "batch": ("POST", "/batch/storage/v1", "Content-Type: multipart/mixed; boundary=B", BATCH),
    "retry_test": ("POST", "/retry_test", JSON_TYPE, RETRY_TEST),
}
HOSTS = [
    "",
    "Host:",
    "Host: evil.example",
    "Host: evil.example:{port}",
    "Host: 127.0.0.1.nip.io:{port}",
    "Host: localhost.evil.example:{port}",
    "Host: 127.0.0.1",
    "Host: 127.0.0.1:1",
    "Host: 0.0.0.0:{port}",
    "Host: [::1]:{port}",
    "Host: 2130706433:{port}",
    "Host: 127.0.0.1:{port}@evil.example",
    "Host: 127.0.0.1:{port}\r\nHost: evil.example",
]
PAGES = [
    "Origin: http://evil.example",
    "Origin: null",
    "Origin: http://127.0.0.1:{port}",
    "Origin:",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-site",
    "X-HTTP-Method-Override: DELETE",
    "Origin: http://evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
]
HEADS = HOSTS + [f"Host: 127.0.0.1:{{port}}\r\n{page}" for page in PAGES]


def everything(shut):
    """All that requests could have changed."""
    paths = ("/storage/v1/b?project=p", "/storage/v1/b/box/o?versions=true", "/retry_tests")
    texts = [shut.request("GET", path) for path in paths] + [shut.request("GET", "/box?uploads")]
    assert {reply.status for reply in texts} == {200}
    incoming = sorted(path.name for path in (shut.directory / "storage/incoming").iterdir())
    return [reply.body for reply in texts], incoming


def send(shut, head, verb, target, header, body):
    """One raw request; everything that comes back."""
    lines = [f"{verb} {target} HTTP/1.1", head.format(port=shut.port), header]
    lines += [f"Content-Length: {len(body)}", "Connection: close"]
    text = "\r\n".join(line for line in lines if line) + "\r\n\r\n" + body
    return shut.raw(text.encode())


@pytest.mark.parametrize("name", REQUESTS)
def test_who_is_not_meant_to_is_refused_before_anything_happens(shut, name):
    before = everything(shut)
    verb, target, header, body = REQUESTS[name]
    for head in HEADS:
        reply = send(shut, head, verb, target, header, body)
        assert status(reply) in (400, 403), head
        assert b"access-control" not in reply.lower()
    own = f"Host: 127.0.0.1:{shut.port}"
    for scheme in ("http://evil.example", f"http://127.0.0.1:{shut.port}", "//evil.example", "x"):
        reply = send(shut, own, verb, scheme + target, header, body)
        # That with two slashes is a path, in which the bucket has no name.
        expected = (400, 404, 501) if scheme.startswith("//") else (400, 403)
        assert status(reply) in expected, scheme
    assert everything(shut) == before


@pytest.mark.parametrize("name", REQUESTS)
def test_the_refused_requests_would_have_done_something(name, tmp_path):
    from client.storage.storage_fixtures import running

    with running(tmp_path) as service:
        service.directory = tmp_path
        service.client().create_bucket("box").blob("kept").upload_from_string(b"kept")
        before = everything(service)
        reply = send(service, f"Host: LocalHost:{service.port}", *REQUESTS[name])
        assert reply.startswith(b"HTTP/1.1 20")
        assert everything(service) != before


@pytest.mark.parametrize("name", REQUESTS)
def test_a_browser_that_asks_first_is_not_encouraged(shut, name):
    _, target, *_ = REQUESTS[name]
    asked = "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: content-type"
    host = f"Host: 127.0.0.1:{shut.port}"
    for head in (f"{host}\r\nOrigin: http://evil.example\r\n{asked}", host):
        for path in (target, "*"):
            reply = send(shut, head, "OPTIONS", path, "X-A: b", "")
            assert status(reply) in (400, 403, 404, 405, 501)
            assert b"access-control" not in reply.lower()


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=B"]
)
@pytest.mark.parametrize("name", ["json", "retry_test"])
def test_what_pages_may_send_unasked_is_no_json(shut, name, kind):
    before = everything(shut)
    verb, target, _, body = REQUESTS[name]
    own = f"Host: 127.0.0.1:{shut.port}"
    reply = send(shut, own, verb, target, f"Content-Type: {kind}", body)
    assert status(reply) == 400
    reply = send(shut, f"{own}\r\nOrigin: null", verb, target, f"Content-Type: {kind}", body)
    assert status(reply) == 403
    assert everything(shut) == before


def test_no_protocol_but_http_is_spoken(shut):
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
    own = f"Host: 127.0.0.1:{shut.port}"
    reply = send(shut, own, "GET", "/storage/v1/b/box", upgrade, "")
    assert status(reply) == 200


LOOPBACKS = {
    "0100007F",
    "0000000000000000FFFF00000100007F",
    "00000000000000000000000001000000",
}
"""127.0.0.1, ::ffff:127.0.0.1 and ::1, as Linux writes them."""


def listening():
    """Address and port of every listening TCP socket of this process."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    own = {str(link.readlink()) for link in links if link.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            _, address, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in own:
                host, _, port = address.rpartition(":")
                found.add((host, int(port, 16)))
    return found


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs Linux's /proc")
def test_every_port_is_open_on_loopback_only(tmp_path):
    before, lines = listening(), []

    def announce(line):
        lines.append((json.loads(line), listening() - before))
        signal.raise_signal(signal.SIGTERM)

    asyncio.run(serve(Settings(tmp_path / "state", tls=True), announce=announce))
    ((line, found),) = lines
    assert {host for host, _ in found} <= LOOPBACKS
    assert int(line["storage"].rpartition(":")[2]) in {port for _, port in found}
    assert len(found) >= 10
