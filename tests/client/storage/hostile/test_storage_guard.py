"""The storage port answers programs on this machine and nobody else."""

import pytest

pytest_plugins = ("client.storage.storage_fixtures",)


@pytest.mark.parametrize(
    "head",
    [
        "GET /storage/v1/b?project=p HTTP/1.1\r\nHost: evil.example\r\n",
        "GET /storage/v1/b?project=p HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        "GET /storage/v1/b?project=p HTTP/1.0\r\n",
        "GET /storage/v1/b?project=p HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\n",
        "GET /storage/v1/b?project=p HTTP/1.1\r\nHost: {own}\r\nOrigin: null\r\n",
        "GET /storage/v1/b?project=p HTTP/1.1\r\nHost: {own}\r\nSec-Fetch-Site: cross-site\r\n",
        "GET http://{own}/storage/v1/b?project=p HTTP/1.1\r\nHost: {own}\r\n",
        "OPTIONS /storage/v1/b HTTP/1.1\r\nHost: {own}\r\nOrigin: http://evil.example\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: {own}\r\n",
    ],
)
def test_the_guard_refuses(storage_service, head):
    head = head.replace("{own}", f"127.0.0.1:{storage_service.port}")
    reply = storage_service.raw(head.encode() + b"Connection: close\r\n\r\n")
    assert reply.startswith((b"HTTP/1.1 403 ", b"HTTP/1.0 403 "))
    assert b"storage#" not in reply
    assert b"access-control" not in reply.lower()


def test_the_guard_lets_programs_in(storage_service):
    head = f"GET /storage/v1/b?project=p HTTP/1.1\r\nHost: LocalHost:{storage_service.port}\r\n"
    reply = storage_service.raw(
        head.encode() + b"Sec-Fetch-Site: none\r\nConnection: close\r\n\r\n"
    )
    assert reply.startswith(b"HTTP/1.1 200 ")
