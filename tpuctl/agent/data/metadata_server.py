"""Values of the worker's metadata server and their changes, over a bare socket. Python 3.8.

`http.client` brings TLS and mail headers with it: half of what an idle agent would take.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable

CONNECT_S = 2.0
TRIES = 3
WAIT_S = 300.0
PATIENCE_S = 20.0
"""Beyond the time that the server was asked to wait."""
PAUSE_S = 10.0
SHORT_S = 1.0
BLOCK_BYTES = 64 * 1024


class MetadataReply:
    """An HTTP answer of the metadata server."""

    def __init__(self, head: bytes, body: bytes) -> None:
        status, *lines = head.decode("latin-1").split("\r\n")
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        self.status = int(status.split()[1])
        self.text = body.decode("utf-8", "replace").strip()
        """The value."""
        self.etag = fields.get("etag", "")
        """The version of the value, for last_etag."""
        length = fields.get("content-length")
        self.is_whole = length is not None and len(body) >= int(length)
        """Whether Content-Length bytes are there; without a length the connection's end tells."""


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
    """Return a value, None when there is none or no server; a late or busy one is asked again."""
    for _ in range(TRIES):
        try:
            answer = ask(path, CONNECT_S)
        except (socket.timeout, ConnectionResetError):  # noqa: UP041 -- so named in Python 3.8
            continue
        except (OSError, ValueError, IndexError):
            return None
        return answer.text if answer.status == 200 else None
    return None


class MetadataWatch(threading.Thread):
    """Calls `changed` with each new value of a metadata path, the first included."""

    def __init__(self, path: str, changed: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.changed = changed
        self.seen = ""
        self.etag = ""

    def run(self) -> None:
        """Ask again and again for as long as the process lives."""
        while True:
            began = time.monotonic()
            is_news = False
            with contextlib.suppress(OSError, ValueError, IndexError):
                is_news = self.ask()
            if not is_news and time.monotonic() - began < SHORT_S:
                time.sleep(PAUSE_S)  # no such server, or one that does not wait

    def ask(self) -> bool:
        """Wait for a change (wait_for_change of the metadata server); return whether there was one.

        Raises as `ask` does.
        """
        query = f"?wait_for_change=true&timeout_sec={WAIT_S:.0f}&last_etag={self.etag}"
        path = f"{self.path}{query if self.etag else ''}"
        answer = ask(path, WAIT_S + PATIENCE_S)
        if answer.status != 200:
            return False
        self.etag = answer.etag
        if answer.text == self.seen:
            return False
        self.seen = answer.text
        self.changed(answer.text)
        return True
