"""Header fields of HTTP/2, read on their way to a server: RFC 7541's own examples, and calls."""

import pytest

from localsim.services.net.call_authority import FOREIGN, AuthorityMarker
from localsim.services.net.hpack import HpackDecoder, HpackError

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, CONTINUATION = 0, 1, 9
END_HEADERS, PADDED, PRIORITY = 4, 8, 32
OWN = "localhost:80"

GET = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")]
THIRD = [
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/index.html"),
    (":authority", "www.example.com"),
    ("custom-key", "custom-value"),
]


@pytest.mark.parametrize(
    "blocks",
    [
        (
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ),
        (
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ),
    ],
    ids=["C.3", "C.4 (Huffman)"],
)
def test_the_requests_of_the_standard(blocks):
    decoder = HpackDecoder()
    assert [words(decoder, block) for block in blocks] == [
        GET,
        [*GET, ("cache-control", "no-cache")],
        THIRD,
    ]


def test_what_no_longer_fits_into_the_table_is_forgotten():
    """RFC 7541, C.5, begins with a table of 256 bytes, which the first block here asks for."""
    decoder = HpackDecoder()
    first = (
        "3fe1014803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a32"
        "31"
        "20474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d"
    )  # fmt: skip
    assert words(decoder, first)[0] == (":status", "302")
    assert words(decoder, "4803333037c1c0bf") == [
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ]
    with pytest.raises(HpackError, match="an index of no header field"):
        decoder.decode(b"\xc2")  # `:status: 302` was the oldest


@pytest.mark.parametrize(
    ("block", "cause"),
    [
        ("80", "an index of no header field"),
        ("be", "an index of no header field"),
        ("ffffffffffff0f", "a number that is too large"),
        ("418c", "ends too early"),
        ("41", "ends too early"),
        ("410f77", "ends too early"),
        ("4184ffffffff", "a string with its end in the middle"),
        ("418100", "a string that ends in the middle of a letter"),
        ("4182ffff", "a string that ends in the middle of a letter"),
        ("3fe21f", "a table of header fields that is too large"),
    ],
)
def test_what_nobody_can_read(block, cause):
    with pytest.raises(HpackError, match=cause):
        HpackDecoder().decode(bytes.fromhex(block))


def words(decoder, block):
    return [(name.decode(), value.decode()) for name, value in decoder.decode(bytes.fromhex(block))]


def literal(name, value):
    return b"\x40" + b"".join(
        bytes([len(text)]) + text.encode() for text in (name, value)
    )  # remembered by the table


def frame(kind, flags, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + bytes([0, 0, 0, 1]) + payload


def call(host, *, ways):
    """The frames of one call, its headers in frames of different kinds."""
    block = literal(":authority", host) + literal("a", "b")
    if ways == "whole":
        headers = frame(HEADERS, END_HEADERS, block)
    elif ways == "padded":
        headers = frame(
            HEADERS, END_HEADERS | PADDED | PRIORITY, b"\3" + b"p" * 5 + block + b"\0" * 3
        )
    else:
        headers = frame(HEADERS, 0, block[:7]) + frame(CONTINUATION, END_HEADERS, block[7:])
    return headers + frame(DATA, 1, b"x" * 40)


WAYS = ("whole", "padded", "continued")


@pytest.mark.parametrize("ways", WAYS)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_calls_for_this_host_pass_as_they_are(ways, step):
    sent = PREFACE + frame(4, 0) + call(OWN, ways=ways) + frame(HEADERS, END_HEADERS, b"\xbe\xbf")
    assert passed(sent, step) == sent


@pytest.mark.parametrize("ways", WAYS)
@pytest.mark.parametrize("step", [1, 1000])
def test_a_call_for_another_host_gets_one_more_header(ways, step):
    """The second call names the host by the number that it has in the table."""
    for again in (b"", frame(HEADERS, END_HEADERS, b"\xbf\xbe")):
        reply = passed(PREFACE + call("evil.example", ways=ways) + again, step)
        assert reply.count(FOREIGN.encode()) == 1 + bool(again)
        assert reply.count(b"x" * 40) == 1


def test_what_is_not_http2_is_left_to_the_server():
    sent = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n" + call("evil.example", ways="whole")
    assert passed(sent, 5) == sent


@pytest.mark.parametrize(
    "sent",
    [
        frame(HEADERS, END_HEADERS, b"\x80"),
        frame(HEADERS, END_HEADERS | PADDED, b"\7abc"),
        frame(HEADERS, END_HEADERS | PADDED),
        frame(HEADERS, END_HEADERS, b"a" * 300_000)[:9],
        frame(HEADERS, 0, b"a" * 200_000) + frame(CONTINUATION, 0, b"a" * 100_000),
    ],
)
def test_nonsense_breaks_the_connection(sent):
    with pytest.raises(ConnectionAbortedError):
        passed(PREFACE + sent, 100_000)


def passed(sent, step):
    marker = AuthorityMarker([OWN])
    return b"".join(marker.pass_on(sent[at : at + step]) for at in range(0, len(sent), step))
