"""Values of the worker's metadata server, over a bare socket. Python 3.8.

`http.client` brings TLS and mail headers with it: half of what an idle agent would take.
"""

from __future__ import annotations

import os
import socket

CONNECT_S = 2.0
BLOCK_BYTES = 64 * 1024


class MetadataReply:
    """An HTTP answer of the metadata server."""

    def __init__(self, head: bytes, body: bytes) -> None:
        status, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(status.split()[1])
        self.fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        self.body = body

    @property
    def text(self) -> str:
        """The value."""
        return self.body.decode("utf-8", "replace").strip()

    @property
    def etag(self) -> str:
        """The version of the value, for last_etag."""
        return self.fields.get("etag", "")

    @property
    def is_whole(self) -> bool:
        """Whether Content-Length bytes are there; without a length the connection's end tells."""
        length = self.fields.get("content-length")
        return length is not None and len(self.body) >= int(length)


def ask(path: str, timeout_s: float) -> MetadataReply:
    """Get a value, a path below computeMetadata/v1; raises OSError, and for what is not HTTP
    ValueError or IndexError.
    """
    place = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    host, _, port = place.partition(":")
    asked = (
        f"GET /computeMetadata/v1/{path} HTTP/1.1\r\nHost: {place}\r\n"
        "Metadata-Flavor: Google\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((host, int(port or 80)), CONNECT_S) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(asked.encode("ascii"))
        told = b""
        while True:
            block = connection.recv(BLOCK_BYTES)
            told += block
            head, found, body = told.partition(b"\r\n\r\n")
            if not block or (found and MetadataReply(head, body).is_whole):
                return MetadataReply(head, body)


def value(path: str) -> str | None:
    """Return a value, None when there is none or no server."""
    try:
        answer = ask(path, CONNECT_S)
    except (OSError, ValueError, IndexError):
        return None
    return answer.text if answer.status == 200 else None
