"""A head keeps one length of its body; bodies are handed on as they are."""

import asyncio

import pytest

from localsim.services.net.body_length import SingleBodyLength

IDENTITY = b"Transfer-Encoding: identity\r\n"
LENGTH = b"Content-Length: 45\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
BODY = b"GET / HTTP/1.1\r\n" + IDENTITY
IN_CHUNKS = b"2d\r\n" + BODY + b"\r\n0\r\n\r\n" + LENGTH


def request(*fields: bytes) -> bytes:
    return b"PUT /o HTTP/1.1\r\n" + b"".join(fields) + b"\r\n"


class Received(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_does_not_count_is_left_out_of_heads_and_of_nothing_else(size: int):
    assert len(BODY) == 45
    server = Received()
    client = SingleBodyLength(server)
    sent = request(LENGTH, IDENTITY) + BODY + request(CHUNKED, LENGTH) + IN_CHUNKS
    for begin in range(0, len(sent), size):
        client.data_received(sent[begin : begin + size])
    assert server.data == request(LENGTH) + BODY + request(CHUNKED) + IN_CHUNKS


def test_a_head_without_an_end_is_handed_on_as_it_comes():
    server = Received()
    client = SingleBodyLength(server)
    client.data_received(b"x" * 40_000)
    assert server.data == b""
    client.data_received(b"x" * 40_000)
    client.data_received(request(LENGTH, IDENTITY))
    assert server.data == b"x" * 80_000 + request(LENGTH, IDENTITY)
