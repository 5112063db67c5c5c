"""Ranges of objects of Cloud Storage, read as the worker's own service account.

Standard library only, Python 3.8.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Callable
from urllib.parse import quote, urlsplit

from tpuctl.agent.data import metadata_server
from tpuctl.retry_after import bounded_pause_s, pause_asked_by

BLOCK_BYTES = 1024 * 1024
SILENCE_S = 30.0
TRIES = 8
"""In a row without a single byte; each that brings some begins the count again."""
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 8.0
TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504})


class FetchError(Exception):
    """An object cannot be fetched; the text says why."""


class ForbiddenError(FetchError):
    """This worker may not read the bucket: no other object will fare better."""


class UnreachedError(FetchError):
    """The bucket did not answer, however often it was asked."""


class TransientFailure(Exception):
    """A failure that a later request may not have; it is to wait `asked_s` seconds at least."""

    def __init__(self, text: str, asked_s: float = 0.0) -> None:
        super().__init__(text)
        self.asked_s = asked_s


class Token:
    """The access token of the worker's service account; none where there is no such account."""

    def __init__(self, *, is_wanted: bool = True) -> None:
        self.header: dict[str, str] = {}
        self.until_s = 0.0 if is_wanted else float("inf")
        self.lock = threading.Lock()

    def headers(self) -> dict[str, str]:
        """The headers that authenticate a request."""
        with self.lock:
            if time.monotonic() > self.until_s:
                found = metadata_server.value("instance/service-accounts/default/token")
                grant = json.loads(found) if found else {}
                token = grant.get("access_token")
                if token:  # else the last one is good for a tenth of its time yet
                    self.header = {"Authorization": f"Bearer {token}"}
                self.until_s = time.monotonic() + float(grant.get("expires_in", 60)) * 0.9
            return self.header


class RangeReader:
    """One bucket at one endpoint; every thread keeps a connection of its own."""

    def __init__(self, endpoint: str, name: str) -> None:
        redirection = redirected_endpoint()
        self.endpoint = redirection or endpoint
        self.path = f"/storage/v1/b/{quote(name, safe='')}/o/"
        self.token = Token(is_wanted=redirection is None)
        self.mine = threading.local()
        self.all: list[http.client.HTTPConnection] = []

    def read(
        self, name: str, generation: int, start: int, end: int, take: Callable[[int, bytes], None]
    ) -> None:
        """Give every block of a range to `take` with its offset, in order. Raises FetchError.

        `take` raises no OSError: those are the network's here.
        """
        reached, tries = start, 0

        def took(block: bytes) -> None:
            nonlocal reached, tries
            take(reached, block)
            reached, tries = reached + len(block), 0

        while reached < end:
            try:
                self.request(name, generation, (reached, end), took)
            except (TransientFailure, OSError, http.client.HTTPException) as error:
                self.connection().close()
                tries += 1
                if tries == TRIES:
                    raise UnreachedError(str(error) or type(error).__name__) from error
                pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (tries - 1))
                time.sleep(pause_asked_by(error) + pause_s)

    def request(
        self, name: str, generation: int, span: tuple[int, int], took: Callable[[bytes], None]
    ) -> None:
        """One request for a range; ends early when the connection does."""
        start, end = span
        headers = {
            # Else the service unpacks what is stored packed, and the checksum is of other bytes.
            "Accept-Encoding": "gzip",
            "Range": f"bytes={start}-{end - 1}",
            **self.token.headers(),
        }
        path = f"{self.path}{quote(name, safe='')}?alt=media&generation={generation}"
        connection = self.connection()
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as reply:
            check_reply(reply, start)
            left = end - start
            while left:
                block = reply.read(min(BLOCK_BYTES, left))
                if not block:
                    raise TransientFailure("the connection ended before the object did")
                left -= len(block)
                took(block)
            reply.read()  # else the connection cannot be used again

    def connection(self) -> http.client.HTTPConnection:
        """This thread's connection; http.client opens it again after it was closed."""
        found: http.client.HTTPConnection | None = getattr(self.mine, "connection", None)
        if found is None:
            found = self.mine.connection = connect(self.endpoint, SILENCE_S)
            self.all.append(found)
        return found

    def close(self) -> None:
        """Close what every thread has left open."""
        for connection in self.all:
            connection.close()


def check_reply(reply: http.client.HTTPResponse, start: int) -> None:
    """Check that a reply is the range that was asked for. Raises TransientFailure, FetchError."""
    if reply.status == 206 or (reply.status == 200 and start == 0):
        return
    text = reply_message(reply)
    if reply.status in TRANSIENT_STATUSES:
        raise TransientFailure(text, bounded_pause_s(reply.getheader("Retry-After")))
    if reply.status in (401, 403):
        raise ForbiddenError(text)
    if reply.status in (404, 412):
        raise FetchError(f"it changed since the plan was made ({text})")
    raise FetchError(text)


def reply_message(reply: http.client.HTTPResponse) -> str:
    """Why a request failed, as the service words it."""
    body = reply.read(BLOCK_BYTES)
    try:
        found = json.loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        found = reply.reason
    return f"{reply.status} {found}"


def redirected_endpoint() -> str | None:
    """Where this worker's environment sends every client of Cloud Storage, without credentials.

    As Google's own clients have it, which a program on the same worker may be using.
    """
    host = os.environ.get("STORAGE_EMULATOR_HOST")
    if not host:
        return None
    return host if "://" in host else f"http://{host}"


def connect(endpoint: str, timeout_s: float) -> http.client.HTTPConnection:
    """A connection to the host of a base URL."""
    address = urlsplit(endpoint)
    secure = address.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    return kind(address.hostname or "", address.port, timeout=timeout_s)
