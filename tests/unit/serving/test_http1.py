"""Heads and bodies of HTTP/1.1, whole and in pieces; what two readers may see differently fails."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.serving.http1.request_body import ChunkedBody, PlainBody, decoded
from tpuctl.serving.http1.request_head import parse_head
from tpuctl.serving.protocol.protocol_error import ProtocolError

START = "POST /v2/models/m/infer HTTP/1.1\r\nHost: h"
LIMIT = 1000


def head(*lines):
    return parse_head("\r\n".join([START, *lines]).encode("latin-1"))


def test_a_head_is_read():
    found = head("Content-Length: 12", "X-A: 1", "X-A:2 ", "Connection: Keep-Alive")
    assert (found.method, found.target, found.length) == ("POST", "/v2/models/m/infer", 12)
    assert found.headers["x-a"] == "1, 2"
    assert found.keeps_alive
    assert not found.is_chunked
    assert not head("Connection: close").keeps_alive
    assert head("Transfer-Encoding: Chunked").is_chunked
    assert not parse_head(b"GET / HTTP/1.0").keeps_alive
    assert parse_head(b"GET / HTTP/1.0\r\nConnection: keep-alive").keeps_alive


def test_heads_that_two_readers_may_see_differently_are_refused():
    same = "Content-Length: 5"
    wrong = [
        [same, same], ["Content-Length: -5"], ["Content-Length: +5"], ["Content-Length: 5, 5"],
        ["Content-Length: 0x5"], ["Content-Length: ²"], ["Content-Length: 9999999999999999"],
        [same, "Transfer-Encoding: chunked"], ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], ["Transfer-Encoding: x"],
        [" folded: line"], ["X-A : 1"], ["X-A"], [": 1"], ["X-A: a\x00b"], ["X-A: a\nb: c"],
        ["Host: other"], ["X A: 1"],
    ]  # fmt: skip
    passed = []
    for lines in wrong:
        try:
            head(*lines)
            passed.append(lines)
        except ProtocolError as error:
            assert (error.status, error.closes) == (400, True)
    assert passed == []
    starts = [
        "", "GET /", "GET / HTTP/2.0", "GET  / HTTP/1.1", "GET /a b HTTP/1.1", "G@T / HTTP/1.1",
        "GET / HTTP/1.1",
    ]  # fmt: skip
    for start in starts:
        with pytest.raises(ProtocolError):
            parse_head(start.encode())
    with pytest.raises(ProtocolError) as caught:
        head(*["X-A: 1"] * 64)
    assert caught.value.status == 431


@given(st.binary(max_size=60))
def test_any_head_is_read_or_refused(data):
    try:
        parse_head(data)
    except ProtocolError as error:
        assert error.status in (400, 431)


def fed(body, data, sizes):
    """What follows the body when the data come in pieces of these sizes."""
    for size in sizes:
        rest = body.feed(data[:size])
        data = data[size:]
        if rest is not None:
            return rest + data
    return body.feed(data)


PIECES = st.lists(st.integers(0, 12), max_size=30)


@given(st.binary(max_size=50), st.binary(max_size=10), PIECES)
def test_a_plain_body_comes_in_any_pieces(data, after, sizes):
    body = PlainBody(len(data))
    assert fed(body, data + after, sizes) == after
    assert (body.joined(), body.received) == (data, len(data))


@given(
    st.lists(st.binary(min_size=1, max_size=30), max_size=5), st.binary(max_size=10), PIECES,
    st.sampled_from([b"", b"X-Trailer: 1\r\n"]),
)  # fmt: skip
def test_a_chunked_body_comes_in_any_pieces(chunks, after, sizes, trailer):
    data = b"".join(b"%x;a=b\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    body = ChunkedBody(LIMIT)
    assert fed(body, data + b"0\r\n" + trailer + b"\r\n" + after, sizes) == after
    assert body.joined() == b"".join(chunks)


def test_chunks_that_are_none_are_refused():
    wrong = {
        b"zz\r\n": 400, b"\r\n": 400, b"-1\r\n": 400, b"2\r\nabc\r\n": 400, b"5 5\r\n": 400,
        b"3e9\r\n": 413, b"ffffffff\r\n": 413, b"1" * 2000: 400, b"0\r\n" + b"a: b\r\n" * 99: 400,
    }  # fmt: skip
    for data, status in wrong.items():
        with pytest.raises(ProtocolError) as caught:
            ChunkedBody(LIMIT).feed(data)
        assert (data, caught.value.status, caught.value.closes) == (data, status, True)


@given(st.binary(max_size=60))
def test_any_chunks_are_read_or_refused(data):
    try:
        ChunkedBody(LIMIT).feed(data)
    except ProtocolError as error:
        assert error.status in (400, 413)


def test_content_codings():
    assert decoded(gzip.compress(b"abc"), "gzip", LIMIT) == b"abc"
    assert decoded(zlib.compress(b"abc"), "deflate", LIMIT) == b"abc"
    assert decoded(b"abc", "identity", LIMIT) == b"abc"
    wrong = [
        (gzip.compress(bytes(10**6)), "gzip", 413), (b"abc", "gzip", 400), (b"", "gzip", 400),
        (gzip.compress(b"abc")[:-1], "gzip", 400), (gzip.compress(b"a") * 2, "gzip", 400),
        (b"abc", "br", 415),
    ]  # fmt: skip
    for data, coding, status in wrong:
        with pytest.raises(ProtocolError) as caught:
            decoded(data, coding, LIMIT)
        assert (data[:3], coding, caught.value.status) == (data[:3], coding, status)
