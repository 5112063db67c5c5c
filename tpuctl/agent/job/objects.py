"""Objects of Cloud Storage, as the worker's own service account: get, create, list. Python 3.8."""

from __future__ import annotations

import contextlib
import http.client
import json
from urllib.parse import quote, urlencode

from tpuctl.agent.data import range_reader as cloud
from tpuctl.page_tokens import json_token, read_pages
from tpuctl.retry_after import bounded_pause_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

CONNECT_S = 5.0
TIMEOUT_S = 30.0
BLOCK_BYTES = 256 * 1024
PERMANENT_STATUSES = frozenset({400, 403, 404, 410})
_TAIL = b"\r\n--part--\r\n"


class DeniedError(OSError):
    """The service refused, and would again: statuses 400, 403, 404 and 410."""


class BusyError(OSError):
    """The service asks to wait for `asked_s` seconds at least."""

    def __init__(self, text: str, asked_s: float) -> None:
        super().__init__(text)
        self.asked_s = asked_s


class ObjectClient:
    """The objects of one bucket. Everything raises OSError, whatever goes wrong."""

    def __init__(self, endpoint: str, bucket: str) -> None:
        redirection = cloud.redirected_endpoint()
        self.endpoint = redirection or endpoint
        self.path = f"/storage/v1/b/{quote(bucket, safe='')}/o"
        self.token = cloud.Token(is_wanted=redirection is None)

    def download(self, key: str, path: str) -> None:
        """Write an object to a file."""
        url = f"{self.path}/{quote(key, safe='')}?alt=media"
        with self.reply(key, url) as reply, open(path, "wb") as file:
            for block in iter(lambda: reply.read(BLOCK_BYTES), b""):
                file.write(block)

    def create(self, key: str, blocks: Iterator[bytes], size_bytes: int) -> bool:
        """Create an object; False when it exists already, and is left alone."""
        head = (
            "--part\r\nContent-Type: application/json\r\n\r\n"
            + json.dumps({"name": key})
            + "\r\n--part\r\nContent-Type: text/plain\r\n\r\n"
        ).encode()
        url = f"/upload{self.path}?uploadType=multipart&ifGenerationMatch=0"
        headers = {
            "Content-Type": "multipart/related; boundary=part",
            "Content-Length": str(len(head) + size_bytes + len(_TAIL)),
        }
        with self.reply(key, url, multipart_body(head, blocks), headers) as reply:
            reply.read()
            return reply.status == 200

    def size_bytes(self, key: str) -> int:
        """Return the size of an object."""
        url = f"{self.path}/{quote(key, safe='')}?fields=size"
        with self.reply(key, url) as reply:
            return int(json.loads(reply.read())["size"])

    def listed(self, prefix: str) -> Iterator[dict[str, Any]]:
        """Yield name, generation, size and crc32c, as strings, of the objects with a prefix."""
        wanted = {
            "prefix": prefix,
            "fields": "items(name,generation,size,crc32c),nextPageToken",
        }
        what = f"objects of {prefix}"

        def fetch(token: str) -> dict[str, Any]:
            query = urlencode({**wanted, "pageToken": token} if token else wanted)
            with self.reply(what, f"{self.path}?{query}") as reply:
                page: dict[str, Any] = json.loads(reply.read())
            return page

        for page in read_pages(fetch, json_token, OSError, what):
            yield from page.get("items", ())

    @contextlib.contextmanager
    def reply(
        self,
        what: str,
        url: str,
        body: Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send one request, POST with a body; its answer is open within the block.

        Raises OSError for a status that is not 200 (or 412 of a POST), DeniedError for one that
        stays; errors begin with `what`.
        """
        connection = cloud.connect(self.endpoint, CONNECT_S)
        try:
            connection.connect()
            connection.sock.settimeout(TIMEOUT_S)
            method = "POST" if body else "GET"
            connection.request(method, url, body, {**(headers or {}), **self.token.headers()})
            with connection.getresponse() as reply:
                if reply.status != 200 and not (body and reply.status == 412):
                    text = f"{what}: {cloud.reply_message(reply)}"
                    if reply.status in PERMANENT_STATUSES:
                        raise DeniedError(text)
                    raise BusyError(text, bounded_pause_s(reply.getheader("Retry-After")))
                yield reply
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(str(error) or type(error).__name__) from error
        finally:
            connection.close()


def multipart_body(head: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks between the two ends of a multipart body."""
    yield head
    yield from blocks
    yield _TAIL
