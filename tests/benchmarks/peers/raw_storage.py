"""Uploads and downloads with as little of a client as possible: the server is what is measured."""

import asyncio
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

from benchmarks.peers.storage_servers import BUCKET

BLOCK_BYTES = 1024 * 1024


def upload_head(url, name, size_bytes):
    """The head of a media upload by a client that asks for no MD5."""
    query = f"uploadType=media&fields=name,crc32c&name={name}"
    return (
        f"POST /upload/storage/v1/b/{BUCKET}/o?{query} HTTP/1.1\r\n"
        f"Host: {urlsplit(url).netloc}\r\nContent-Type: application/octet-stream\r\n"
        f"Content-Length: {size_bytes}\r\n\r\n"
    ).encode()


def download_head(url, name):
    """The head of a media download."""
    return (
        f"GET /download/storage/v1/b/{BUCKET}/o/{name}?alt=media HTTP/1.1\r\n"
        f"Host: {urlsplit(url).netloc}\r\n\r\n"
    ).encode()


def upload_large(url, name, block, blocks):
    """Seconds from the first byte sent to the answer; the body is a block, again and again."""
    with _connected(url) as connection:
        began = time.perf_counter()
        connection.sendall(upload_head(url, name, len(block) * blocks))
        for _ in range(blocks):
            connection.sendall(block)
        _answer(connection)
        return time.perf_counter() - began


def download_large(url, name):
    """Seconds from the request to the last byte, and how many bytes came."""
    buffer = memoryview(bytearray(BLOCK_BYTES))
    with _connected(url) as connection:
        began = time.perf_counter()
        connection.sendall(download_head(url, name))
        left = size_bytes = _answer(connection, buffer)
        while left:
            left -= connection.recv_into(buffer, min(left, BLOCK_BYTES))
        return time.perf_counter() - began, size_bytes


def many(url, heads_and_bodies, connections):
    """Seconds for all requests, taken in turn by so many connections."""
    return asyncio.run(_many(url, heads_and_bodies, connections))


async def _many(url, requests, connections):
    waiting = iter(requests)
    host, port = urlsplit(url).hostname, urlsplit(url).port
    open_ones = [await asyncio.open_connection(host, port) for _ in range(connections)]

    async def one_connection(reader, writer):
        for head, body in waiting:
            writer.write(head)
            writer.write(body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            await reader.readexactly(_content_length(answer))

    began = time.perf_counter()
    await asyncio.gather(*(one_connection(*streams) for streams in open_ones))
    took_s = time.perf_counter() - began
    for _, writer in open_ones:
        writer.close()
    return took_s


@contextmanager
def uploading(url, blocks):
    """Another process uploads one large object after the other, until the context ends."""
    argv = [sys.executable, __file__, url, str(blocks)]
    with subprocess.Popen(argv) as process:
        try:
            yield
            assert process.poll() is None, "the uploads ended"
        finally:
            process.kill()


def _connected(url):
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _answer(connection, into=None):
    """Read the head of a 200 and, into nothing, its body; what is left of a body to come."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(1)  # the body is the caller's
        assert data, "the server hung up"
        head += data
    assert head.startswith(b"HTTP/1.1 200"), head
    size_bytes = _content_length(head)
    if into is not None:
        return size_bytes
    while size_bytes:
        size_bytes -= len(connection.recv(size_bytes))
    return 0


def _content_length(head):
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


if __name__ == "__main__":
    while True:
        upload_large(sys.argv[1], "meanwhile", bytes(BLOCK_BYTES), int(sys.argv[2]))
