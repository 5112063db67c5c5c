"""One bucket for copies in bulk: whole pages, bodies from memory, ranges as they come.

Every write names the generation it replaces, so that it can be sent again when its answer is lost.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO
from urllib.parse import quote

import requests

from tpuctl.errors import (
    IntegrityError,
    NotFoundError,
    OutcomeUnknownError,
    PreconditionError,
    TpuctlError,
    TransientError,
)
from tpuctl.network_policy import (
    STORAGE_METADATA,
    STORAGE_READ,
    STORAGE_WRITE,
    TransferPolicy,
)
from tpuctl.store.crc32c_base64 import decode_crc32c, encode_crc32c
from tpuctl.store.entry import WRITE_NAME
from tpuctl.store.gcs.backoff import Backoff, run_with_retries
from tpuctl.store.gcs.content_types import content_type
from tpuctl.store.gcs.json_api import send_request, translate_errors
from tpuctl.store.gcs.multipart import Multipart
from tpuctl.store.gcs.object_info import (
    ITEM_FIELDS,
    BucketFacts,
    ObjectInfo,
    bucket_facts,
    object_info_of,
)
from tpuctl.store.gcs.prefetch import Prefetch

__all__ = ["MAX_COMPOSED", "BucketFacts", "BulkBucket", "ObjectInfo"]

BLOCK_BYTES = 256 * 1024
"""What several threads pass on at once still fits into a processor's cache."""
MAX_COMPOSED = 32

Page = list[ObjectInfo]


class BulkBucket:
    """The objects of one bucket. Raises the errors of tpuctl.errors and no others."""

    def __init__(
        self, name: str, *, session: Any, endpoint: str, client: Callable[[], Any]
    ) -> None:
        """Through a requests.Session; `client` makes google.cloud.storage's Client from it."""
        self.url = f"gs://{name}"
        self._session = session
        self._client = client
        bucket = f"storage/v1/b/{quote(name, safe='')}"
        endpoint = endpoint.rstrip("/")
        self._about = f"{endpoint}/{bucket}"
        self._objects = f"{endpoint}/{bucket}/o"
        self._media = f"{endpoint}/download/{bucket}/o"
        self._uploads = f"{endpoint}/upload/{bucket}/o"

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key starts with the prefix, in the order of keys.

        The pages are fetched from now on, some ahead of who reads them.
        """
        return self._in_order(prefix, Prefetch(self._pages(prefix)))

    def head(self, key: str) -> ObjectInfo | None:
        """What is known of an object, or None."""
        item = self._properties(key)
        return None if item is None else object_info_of(item)

    def upload(
        self, key: str, pieces: Callable[[], Iterable[bytes]], size_bytes: int, crc32c: int, *,
        generation: int,
    ) -> int:  # fmt: skip
        """Replace that generation (0: nothing) in one request; returns the new one.

        `pieces` is called for each attempt. Raises PreconditionError when it is another one.
        """
        return self.put(key, pieces, size_bytes, crc32c, generation=generation).generation

    def put(
        self, key: str, pieces: Callable[[], Iterable[bytes | memoryview]], size_bytes: int,
        crc32c: int, *, generation: int,
    ) -> ObjectInfo:  # fmt: skip
        """The same, and all that is known of the object then."""
        write_name = uuid.uuid4().hex
        described = {
            "name": key,
            "contentType": content_type(key),
            "crc32c": encode_crc32c(crc32c),
            "metadata": {WRITE_NAME: write_name},
        }
        body = Multipart(json.dumps(described).encode(), pieces, size_bytes)
        url = (
            f"{self._uploads}?uploadType=multipart&ifGenerationMatch={generation}"
            f"&fields={ITEM_FIELDS}"
        )
        headers = {"Content-Type": body.content_type}

        def send() -> Any:
            return self._answer("POST", url, STORAGE_WRITE, data=body, headers=headers).json()

        return object_info_of(self._written(key, write_name, crc32c, send))

    def upload_resumable(self, key: str, file: BinaryIO, *, generation: int) -> int:
        """The same for a seekable file of any size, in pieces that follow one another."""
        from tpuctl.store.gcs.bucket import BucketStore  # which imports google-cloud-storage

        store = BucketStore(self.url, self._client())
        return store.put_if_generation(key, file, generation).generation

    def compose(
        self, key: str, sources: Sequence[ObjectInfo], crc32c: int, *, generation: int
    ) -> int:
        """Join up to 32 objects, each as it was seen, into one; returns its generation."""
        write_name = uuid.uuid4().hex
        url = (
            f"{self._objects}/{quote(key, safe='')}/compose?ifGenerationMatch={generation}"
            "&fields=generation,crc32c"
        )
        seen = [
            {
                "name": one.key,
                "generation": str(one.generation),
                "objectPreconditions": {"ifGenerationMatch": str(one.generation)},
            }
            for one in sources
        ]
        whole = {"contentType": content_type(key), "metadata": {WRITE_NAME: write_name}}
        body = {"sourceObjects": seen, "destination": whole}

        def send() -> Any:
            return self._answer("POST", url, STORAGE_WRITE, json=body).json()

        return int(self._written(key, write_name, crc32c, send)["generation"])

    def download(
        self, key: str, generation: int, start: int, end: int, write: Callable[[bytes], object]
    ) -> None:
        """Hand the bytes from start up to, not including, end to `write`, in order, each once.

        Raises IntegrityError when the object ends before.
        """
        url = f"{self._media}/{quote(key, safe='')}?alt=media&generation={generation}"
        attempts = Backoff(STORAGE_READ)
        with translate_errors(f"{self.url}/{key}"):
            while start < end:
                try:
                    # Stored bytes as they are: without this one, gzip would be unpacked on the way.
                    headers = {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "gzip"}
                    with self._answer(
                        "GET", url, STORAGE_READ, headers=headers, stream=True
                    ) as response:
                        if _length(response, end) < end:
                            raise IntegrityError(f"{self.url}/{key} ends before byte {end}")
                        for block in _blocks(response, end - start):
                            write(block)
                            start += len(block)
                            attempts.note_progress()
                    if start < end:
                        raise ConnectionError("the connection ended before the object did")
                except Exception as error:  # noqa: BLE001 (raised again unless it is transient)
                    attempts.wait(error)

    def delete(self, key: str, generation: int) -> bool:
        """Remove that generation; False when there is none, PreconditionError when it changed."""
        url = f"{self._objects}/{quote(key, safe='')}?ifGenerationMatch={generation}"
        try:
            with translate_errors(f"{self.url}/{key}"):
                run_with_retries(
                    STORAGE_METADATA, lambda: self._answer("DELETE", url, STORAGE_METADATA)
                )
        except NotFoundError:
            return False
        return True

    def facts(self) -> BucketFacts:
        """What Google says of the bucket; PermissionDeniedError for who may only use objects."""
        with translate_errors(self.url):
            return bucket_facts(
                run_with_retries(
                    STORAGE_METADATA, lambda: self._answer("GET", self._about, STORAGE_METADATA)
                ).json()
            )

    def _in_order(self, prefix: str, pages: Iterable[Page]) -> Iterator[ObjectInfo]:
        last = ""
        for page in pages:
            for found in page:
                if found.key <= last:  # deletions go by it: it must not repeat or go back
                    raise IntegrityError(f"the list of {self.url}/{prefix} is not in order")
                last = found.key
                yield found

    def _pages(self, prefix: str) -> Iterator[Page]:
        query = {"prefix": prefix, "maxResults": "1000"}
        query["fields"] = f"items({ITEM_FIELDS}),nextPageToken"

        def send() -> Any:
            return self._answer("GET", self._objects, STORAGE_METADATA, params=query).json()

        while True:
            with translate_errors(f"{self.url}/{prefix}"):
                page = run_with_retries(STORAGE_METADATA, send)
            yield [object_info_of(item) for item in page.get("items", ())]
            if not page.get("nextPageToken"):
                return
            query["pageToken"] = page["nextPageToken"]

    def _written(
        self, key: str, write_name: str, crc32c: int, send: Callable[[], Any]
    ) -> dict[str, Any]:
        """Send; when refused or unheard, read back whether it was ours that succeeded."""
        try:
            with translate_errors(f"{self.url}/{key}"):
                written: dict[str, Any] = run_with_retries(STORAGE_WRITE, send)
        except (PreconditionError, TransientError) as error:
            written = self._read_back(key, write_name, error)
        if decode_crc32c(written.get("crc32c")) != crc32c:
            raise IntegrityError(f"{self.url}/{key}: the bytes stored are not the bytes sent")
        return written

    def _read_back(self, key: str, write_name: str, error: TpuctlError) -> dict[str, Any]:
        try:
            found = self._properties(key)
        except TransientError as unread:
            raise OutcomeUnknownError(
                f"{self.url}/{key} may or may not have been written: {unread}"
            ) from error
        if found is not None and found.get("metadata", {}).get(WRITE_NAME) == write_name:
            return found
        raise error

    def _properties(self, key: str) -> dict[str, Any] | None:
        url = f"{self._objects}/{quote(key, safe='')}?fields={ITEM_FIELDS},metadata"
        try:
            with translate_errors(f"{self.url}/{key}"):
                found: dict[str, Any] = run_with_retries(
                    STORAGE_METADATA, lambda: self._answer("GET", url, STORAGE_METADATA)
                ).json()
        except NotFoundError:
            # No such object, or no such bucket: only the list can tell.
            next(self.list(key), None)
            return None
        return found

    def _ask(self, method: str, url: str) -> requests.Response:
        return run_with_retries(
            STORAGE_METADATA, lambda: self._answer(method, url, STORAGE_METADATA)
        )

    def _answer(
        self, method: str, url: str, policy: TransferPolicy, **request: Any
    ) -> requests.Response:
        return send_request(self._session, method, url, timeout=policy.timeout, **request)


def _length(response: requests.Response, expected: int) -> int:
    """How long the object is, as an answer with a part of it says (`bytes 0-9/10`)."""
    length = response.headers.get("Content-Range", "").rpartition("/")[2]
    return int(length) if length.isdecimal() else expected


def _blocks(response: requests.Response, size_bytes: int) -> Iterator[bytes]:
    """What comes of so many bytes; urllib3 raises when the connection ends too early."""
    while size_bytes > 0 and (block := response.raw.read(min(BLOCK_BYTES, size_bytes))):
        size_bytes -= len(block)
        yield block
