"""Calls that name another host, found in the bytes of HTTP/2 on their way to a server."""

import pytest

from localsim.services.net.call_authority import FOREIGN, AuthorityMarker

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, CONTINUATION = 0, 1, 9
END_HEADERS, PADDED, PRIORITY = 4, 8, 32
OWN = "localhost:80"


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
