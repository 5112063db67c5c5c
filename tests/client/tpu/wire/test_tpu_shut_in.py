"""Only programs on this machine use the API's ports: everything else is refused before it runs."""

import socket

import grpc
import pytest

from client.tpu.tpu_service import ZONE

pytest_plugins = ("client.tpu.tpu_fixtures",)

CREATE = f"POST /v2/{ZONE}/nodes?nodeId=a HTTP/1.1\r\nHost: 127.0.0.1"
BODY = '{"acceleratorType": "v5litepod-16", "runtimeVersion": "v2-alpha-tpuv5-lite"}'
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS = 0, 1, 3, 4


def answer(port, request):
    """Everything that the server sends back before it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        found = b""
        try:
            while part := connection.recv(65536):
                found += part
        except ConnectionResetError:
            pass  # it had more to say than it wanted to hear
        return found


def over_http(service, head, body=""):
    request = f"{head}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    return answer(service.rest_port, request.encode("latin-1"))


def nodes(service):
    return service.send("GET", f"/v2/{ZONE}/nodes")[1]


def test_the_request_that_the_refused_ones_vary_is_fine(service):
    reply = over_http(service, f"{CREATE}\r\nContent-Type: application/json", BODY)
    assert reply.startswith(b"HTTP/1.1 200 ")
    assert len(nodes(service)["nodes"]) == 1


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/plain;charset=UTF-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "multipart/related; boundary=x",
        "application/octet-stream",
        "application/json-patch",
        "",
    ],
)
def test_a_body_that_is_not_json_is_refused_by_its_type(service, kind):
    reply = over_http(service, f"{CREATE}\r\nContent-Type: {kind}", BODY)
    assert reply.startswith(b"HTTP/1.1 415 ")
    assert nodes(service) == {}


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("{", "Unexpected token"),
        ('{"a": NaN}', "Unexpected token"),
        ("[" * 100_000, "Unexpected token"),
        ('{"description": "\xff"}', "Unexpected token"),
        ('{"description": "\\ud800"}', "node.description"),
        ('{"networkConfig": {"queueCount": ' + "9" * 5000 + "}}", "Unexpected token"),
        ('{"networkConfig": {"queueCount": 1e999}}', "node.network_config.queue_count"),
        ('{"confidentialInstanceConfig": ' + '{"a":' * 200 + "1" + "}" * 201, "node.confidential"),
        ("[]", "cannot start list"),
        ("7", "'node'"),
    ],
)
def test_malformed_json_is_an_invalid_argument(service, body, cause):
    reply = over_http(service, f"{CREATE}\r\nContent-Type: application/json", body)
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b'"status": "INVALID_ARGUMENT"' in reply
    assert cause.encode() in reply
    assert nodes(service) == {}


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (f"//v2/{ZONE}/nodes", 404),
        (f"/v2//{ZONE}/nodes", 404),
        (f"/v2/{ZONE}/nodes/", 404),
        (f"/v2/{ZONE}/nodes/a%2F..%2Fb", 400),
        (f"/v2/{ZONE}/nodes/%ff", 400),
        (f"/v2/{ZONE}/nodes/%00", 404),
        (f"/v2/{ZONE}/nodes/%0a", 404),
        (f"/v2/{ZONE}/nodes/..", 404),
        ("/v1/projects/demo/locations/us-west4-a/no", 501),
        ("/v2/%2e%2e/%2e%2e/etc/passwd", 404),
        (f"/v2/{ZONE}/nodes/{'a' * 65536}", 400),
    ],
)
def test_odd_paths_lead_nowhere(service, target, status):
    reply = over_http(service, f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1")
    assert int(reply.split()[1]) == status


@pytest.mark.parametrize(
    "headers",
    [
        "X: " + "a" * 100_000,
        "X: a\r\n" * 40_000 + "Y: b",
        "Transfer-Encoding: chunked\r\n\r\nzz",
        "Content-Type: application/json\r\nContent-Encoding: gzip",
    ],
    ids=["long", "many", "chunks", "gzip"],
)
def test_odd_framing_is_a_bad_request(service, headers):
    assert int(over_http(service, f"{CREATE}\r\n{headers}", BODY).split()[1]) == 400
    assert nodes(service) == {}


@pytest.mark.parametrize("verb", ["PUT", "HEAD", "OPTIONS", "TRACE", "CONNECT", "DELETE"])
def test_other_verbs_find_no_method(service, verb):
    reply = over_http(service, f"{verb} /v2/{ZONE}/nodes HTTP/1.1\r\nHost: 127.0.0.1")
    assert int(reply.split()[1]) in (400, 404)
    assert b"access-control" not in reply.lower()


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /google.cloud.tpu.v2.Tpu/CreateNode HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/grpc\r\nContent-Length: 5\r\n\r\n\0\0\0\0\0",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    ],
    ids=["HTTP/1.1", "upgrade to HTTP/2", "WebSocket"],
)
def test_grpc_hears_nothing_that_a_page_can_send_in_the_clear(service, request_):
    """Browsers speak HTTP/2 inside TLS only; in the clear all that a page has is HTTP/1.1."""
    kinds = [kind for kind, _ in frames(answer(service.grpc_port, request_))]
    assert kinds[0] == SETTINGS
    assert HEADERS not in kinds


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ([(":authority", "localhost:{port}"), ("origin", "http://evil.example")], b"web pages"),
        ([(":authority", "localhost:{port}"), ("sec-fetch-site", "cross-site")], b"web pages"),
        ([("host", "evil.example")], b"Host"),
        ([(":authority", "evil.example:{port}")], b"authority"),
        ([(":authority", "evil.example")], b"authority"),
        ([(":authority", "localhost")], b"authority"),
        ([(":authority", "127.0.0.1:1")], b"authority"),
        ([(":authority", "")], b"authority"),
    ],
)
def test_grpc_refuses_the_marks_of_a_browser_and_another_host(service, more, cause):
    more = [(name, value.format(port=service.grpc_port)) for name, value in more]
    reply = over_http2(service.grpc_port, [*LIST_NODES, *more])
    assert cause in reply
    assert b"grpc-status\x017" in reply  # PERMISSION_DENIED


def test_grpc_answers_a_program(service):
    port = service.grpc_port
    reply = over_http2(port, [*LIST_NODES, (":authority", f"localhost:{port}")])
    assert b"grpc-status\x013" in reply  # INVALID_ARGUMENT: the empty request names no parent


@pytest.mark.parametrize("headers", [{}, {"a": "b" * 4000}], ids=["short", "long"])
def test_a_client_that_names_another_host_is_refused_call_by_call(service, headers):
    """`grpc.default_authority` is how a client of gRPC names another host than it connects to."""
    options = (("grpc.default_authority", "tpu.googleapis.com"),)
    with grpc.insecure_channel(f"127.0.0.1:{service.grpc_port}", options) as channel:
        call = channel.unary_unary("/google.cloud.tpu.v2.Tpu/ListNodes")
        for _ in range(2):
            with pytest.raises(grpc.RpcError) as refused:
                call(b"", metadata=tuple(headers.items()))
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert refused.value.details() == (
                "Refused: this server does not answer to that authority."
            )


def test_the_port_behind_the_guard_answers_nobody_else(service):
    with (
        grpc.insecure_channel(f"127.0.0.1:{service.behind_port}") as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        channel.unary_unary("/google.cloud.tpu.v2.Tpu/ListNodes")(b"")
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_grpc_wants_an_authority(service):
    kinds = [kind for kind, _ in frames(over_http2(service.grpc_port, LIST_NODES))]
    assert RST_STREAM in kinds
    assert HEADERS not in kinds


LIST_NODES = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/google.cloud.tpu.v2.Tpu/ListNodes"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]


def over_http2(port, headers):
    """One call with an empty message, its headers spelled out; all frames until the call ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        block = b"".join(literal(name) + literal(value, first=False) for name, value in headers)
        connection.sendall(
            PREFACE
            + frame(SETTINGS, 0, 0)
            + frame(HEADERS, 4, 1, block)
            + frame(DATA, 1, 1, b"\0" * 5)
        )
        found = b""
        while not ended(found):
            part = connection.recv(65536)
            assert part, "the server closed the connection"
            found += part
        return found


def literal(text, *, first=True):
    """A literal header field that no table remembers, as HPACK writes it without Huffman's code."""
    return b"\x00" * first + bytes([len(text)]) + text.encode()


def frame(kind, flags, stream, payload=b""):
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def frames(data):
    """Kind and flags of each whole frame."""
    found = []
    while len(data) >= 9 + int.from_bytes(data[:3], "big"):
        found.append((data[3], data[4]))
        data = data[9 + int.from_bytes(data[:3], "big") :]
    return found


def ended(data):
    return any(
        kind == RST_STREAM or (kind == HEADERS and flags & 1) for kind, flags in frames(data)
    )
