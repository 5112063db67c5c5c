"""The client of one bucket: whole pages, bodies from memory, ranges as they come.

Every write names the generation it replaces, so that it can be sent again when its answer is lost;
the second is then refused because the first had succeeded. It therefore carries a name of its own
in the object's metadata: who is refused, or hears nothing, reads the object back and knows whether
it is the own one.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from tpuctl.page_tokens import json_token, read_pages
from tpuctl.store.crc32c_base64 import crc32c, decode_crc32c, encode_crc32c
from tpuctl.store.entry import WRITE_NAME, blocks, measure_source
from tpuctl.store.gcs.backoff import Backoff, run_with_retries
from tpuctl.store.gcs.json_api import RequestRefusedError, StorageSession, translate_errors
from tpuctl.store.gcs.object_info import (
    ITEM_FIELDS,
    BucketFacts,
    ObjectInfo,
    bucket_facts,
    object_info_of,
)
from tpuctl.store.gcs.prefetch import Prefetch
from tpuctl.store.gcs.uploads import FileRest, Multipart, content_type

__all__ = ["MAX_COMPOSED", "BucketFacts", "BulkBucket", "ObjectInfo"]

BLOCK_BYTES = 256 * 1024
"""What several threads pass on at once still fits into a processor's cache."""
MAX_COMPOSED = 32
_ONE_REQUEST_BYTES = 8 * 1024 * 1024
"""A file of this size or less is sent in one request."""
_ASKED_AT_ONCE = 16
_UNFINISHED, _NO_RANGE = 308, 416
_SESSION_GONE = (404, 410)

Page = list[ObjectInfo]


_API = "/storage/v1"


class UploadSessionGoneError(ConnectionError):
    """A resumable upload that the service does not know any more: it has to begin again."""


class BulkBucket:
    """The objects of one bucket. Raises the errors of tpuctl.errors and no others."""

    def __init__(self, name: str, session: StorageSession) -> None:
        """Name the bucket and the session; nothing is sent yet."""
        self.name, self.url = name, f"gs://{name}"
        self._session = session
        bucket = _bucket_path(name)
        self._about = bucket
        self._objects = f"{bucket}/o"
        self._media = f"/download{bucket}/o"
        self._uploads = f"/upload{bucket}/o"

    def list(self, prefix: str = "", *, is_ahead: bool = True) -> Iterator[ObjectInfo]:
        """Every object whose key starts with the prefix, in the order of keys.

        The pages are fetched from now on, some ahead of who reads them, unless `is_ahead` is false.
        """
        pages = self._pages(prefix)
        return self._in_order(prefix, Prefetch(pages) if is_ahead else pages)

    def head(self, key: str) -> ObjectInfo | None:
        """What is known of an object, or None; NotFoundError when the bucket is not there."""
        found = self.find(key)
        if found is None:
            next(self._pages(key))  # no such object, or no such bucket: only the list can tell
        return found

    def find(self, key: str) -> ObjectInfo | None:
        """What is known of an object; None without it, or without its bucket."""
        item = self._properties(key)
        return None if item is None else object_info_of(item)

    def upload(
        self, key: str, pieces: Callable[[], Iterable[bytes | memoryview]], size_bytes: int,
        crc32c: int, *, generation: int,
    ) -> ObjectInfo:  # fmt: skip
        """Replace that generation (0: nothing) in one request.

        `pieces` is called for each attempt. Raises PreconditionError when it is another one.
        """
        described = _described(key, crc32c)
        body = Multipart(json.dumps(described).encode(), pieces, size_bytes)
        path = self._upload_path("multipart", generation)
        headers = {"Content-Type": body.content_type}

        def send() -> Any:
            return self._ask("POST", path, STORAGE_WRITE, data=body, headers=headers).json()

        return object_info_of(self._written(key, described, crc32c, send))

    def upload_resumable(self, key: str, file: BinaryIO, *, generation: int) -> ObjectInfo:
        """Replace that generation (0: nothing) by a seekable file of any size.

        The file is read twice, first for its checksum. An upload that breaks off goes on with the
        first byte that the service has not stored:
        https://cloud.google.com/storage/docs/performing-resumable-uploads
        """
        size_bytes, checksum = measure_source(file)
        value = decode_crc32c(checksum) or 0
        if size_bytes <= _ONE_REQUEST_BYTES:
            return self.upload(key, lambda: blocks(file), size_bytes, value, generation=generation)
        described = _described(key, value)
        path = self._upload_path("resumable", generation)

        def send() -> Any:
            begun = self._ask("POST", path, STORAGE_WRITE, json=described)
            return self._send_file(begun.headers["Location"], file, size_bytes)

        return object_info_of(
            self._written(key, described, value, lambda: run_with_retries(STORAGE_WRITE, send))
        )

    def compose(
        self, key: str, sources: Sequence[ObjectInfo], crc32c: int, *, generation: int
    ) -> int:
        """Join up to 32 objects, each as it was seen, into one; returns its generation."""
        described = _described(key)
        seen = [
            {
                "name": source.key,
                "generation": str(source.generation),
                "objectPreconditions": {"ifGenerationMatch": str(source.generation)},
            }
            for source in sources
        ]
        path = (
            f"{self._object(key)}/compose?ifGenerationMatch={generation}&fields=generation,crc32c"
        )
        body = {"sourceObjects": seen, "destination": described}

        def send() -> Any:
            return self._ask("POST", path, STORAGE_WRITE, json=body).json()

        return int(self._written(key, described, crc32c, send)["generation"])

    def rewrite(
        self, key: str, source_bucket: str, source: ObjectInfo, *, generation: int,
        keeps_metadata: bool = False,
    ) -> ObjectInfo:  # fmt: skip
        """Replace that generation (0: nothing) by a copy of an object, as it was seen.

        With `keeps_metadata` the copy has the source's content type, encoding and metadata, and no
        name of its own for the write: one whose answer was lost looks like somebody else's.

        The service copies, in as many calls as it takes; no byte comes here:
        https://cloud.google.com/storage/docs/json_api/v1/objects/rewrite. Raises NotFoundError when
        the source is not there any more.
        """
        described = {"metadata": {}} if keeps_metadata else _described(key)
        body = {} if keeps_metadata else {"json": described}
        place = f"{_bucket_path(source_bucket)}/o/{quote(source.key, safe='')}"
        target = f"{place}/rewriteTo{self._about.removeprefix(_API)}/o/{quote(key, safe='')}"
        query = f"sourceGeneration={source.generation}&ifGenerationMatch={generation}"
        fields = f"done,totalBytesRewritten,rewriteToken,resource({ITEM_FIELDS})"

        def send() -> Any:
            token, copied_bytes = "", -1
            while True:
                path = f"{target}?{query}&fields={fields}{token}"
                answer = self._ask("POST", path, STORAGE_WRITE, **body).json()
                if answer["done"]:
                    return answer["resource"]
                if int(answer["totalBytesRewritten"]) <= copied_bytes:
                    raise IntegrityError(
                        f"{self.url}/{key}: the service does not copy any more bytes"
                    )
                copied_bytes = int(answer["totalBytesRewritten"])
                token = f"&rewriteToken={quote(answer['rewriteToken'], safe='')}"

        return object_info_of(self._written(key, described, source.crc32c, send))

    def read(
        self, key: str, start: int = 0, end: int | None = None, *, generation: int | None = None
    ) -> bytes:
        """The bytes from start up to, not including, end, or to the end of the object.

        A whole read is verified: IntegrityError when its checksum is not that of the object.
        """
        received: list[bytes] = []
        with translate_errors(f"{self.url}/{key}"):
            try:
                _, checksum = self._receive(key, generation, start, end, received.append)
            except RequestRefusedError as error:
                if error.code != _NO_RANGE:
                    raise
                return b""  # the object ends before `start`
        data = b"".join(received)
        if not start and end is None and checksum not in (None, crc32c(data)):
            raise IntegrityError(
                f"{self.url}/{key}: the checksum of the bytes that came is not that of the object"
            )
        return data

    def download(
        self, key: str, generation: int, start: int, end: int, write: Callable[[bytes], object]
    ) -> None:
        """Hand the bytes from start up to, not including, end to `write`, in order, each once.

        Raises IntegrityError when the object ends before.
        """
        with translate_errors(f"{self.url}/{key}"):
            reached, _ = self._receive(key, generation, start, end, write)
        if reached < end:
            raise IntegrityError(f"{self.url}/{key} ends before byte {end}")

    def delete(self, key: str, generation: int) -> bool:
        """Remove that generation; False when there is none, PreconditionError when it changed."""
        try:
            with translate_errors(f"{self.url}/{key}"):
                self._ask(
                    "DELETE",
                    f"{self._object(key)}?ifGenerationMatch={generation}",
                    STORAGE_METADATA,
                )
        except NotFoundError:
            return False
        return True

    def facts(self) -> BucketFacts:
        """The settings of the bucket; PermissionDeniedError for who may only use objects."""
        with translate_errors(self.url):
            return bucket_facts(self._ask("GET", self._about, STORAGE_METADATA).json())

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
        query["fields"] = f"items({ITEM_FIELDS},kmsKeyName),nextPageToken"

        def fetch(token: str) -> Any:
            wanted = {**query, "pageToken": token} if token else query
            with translate_errors(f"{self.url}/{prefix}"):
                return self._ask("GET", self._objects, STORAGE_METADATA, params=wanted).json()

        for page in read_pages(
            fetch, json_token, IntegrityError, f"the list of {self.url}/{prefix}"
        ):
            yield self._with_checksums(page.get("items", ()))

    def _with_checksums(self, items: Sequence[dict[str, Any]]) -> Page:
        """The objects of a page, with the checksums that a list leaves out.

        Google's lists have none of objects under a key of Cloud KMS: each is asked for by itself.
        """
        page = [object_info_of(item) for item in items]
        lacking = [
            index
            for index, item in enumerate(items)
            if "crc32c" not in item and item.get("kmsKeyName")
        ]
        if lacking:
            with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
                found = pool.map(self.find, [page[index].key for index in lacking])
                for index, asked in zip(lacking, found, strict=True):
                    if asked is not None and asked.generation == page[index].generation:
                        page[index] = asked
        return page

    def _receive(
        self, key: str, generation: int | None, start: int, end: int | None,
        write: Callable[[bytes], object],
    ) -> tuple[int, str | None]:  # fmt: skip
        """Hand bytes to `write`; returns where they end, and the checksum of the whole object.

        A read that is cut off goes on with the generation that it began with.
        """
        attempts = Backoff(STORAGE_READ)
        checksum = None
        while end is None or start < end:
            try:
                with self._open(key, generation, start, end) as response:
                    generation = int(response.headers.get("X-Goog-Generation", generation or 0))
                    checksum = _checksum(response)
                    length = _length(response, end)
                    end = length if end is None else min(end, length)
                    for block in _blocks(response, end - start):
                        write(block)
                        start += len(block)
                        attempts.note_progress()
                if start < end:
                    raise ConnectionError("the connection ended before the object did")
            except Exception as error:  # noqa: BLE001 (raised again unless it is transient)
                attempts.wait(error)
        return start, checksum

    def _open(
        self, key: str, generation: int | None, start: int, end: int | None
    ) -> requests.Response:
        query = "" if generation is None else f"&generation={generation}"
        # Stored bytes as they are: without this one, gzip would be unpacked on the way.
        headers = {"Accept-Encoding": "gzip"}
        if start or end is not None:
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        path = f"{self._media}/{quote(key, safe='')}?alt=media{query}"
        return self._session.send(
            "GET", path, timeout=STORAGE_READ.timeout, headers=headers, stream=True
        )

    def _send_file(self, url: str, file: BinaryIO, size_bytes: int) -> dict[str, Any]:
        """Send a file to the URL of a resumable upload; returns the object's JSON."""
        attempts = Backoff(STORAGE_WRITE)
        stored = 0
        start: int | None = 0
        while True:
            try:
                answer = self._send_rest(url, file, start, size_bytes)
                if isinstance(answer, dict):
                    return answer
                if answer < stored:
                    raise _illegal_range(f"{answer} bytes after {stored}")
                if answer > stored:
                    attempts.note_progress()
                elif start is not None:
                    raise ConnectionError("the service does not store the bytes that are sent")
                start = stored = answer
            except UploadSessionGoneError:
                raise
            except Exception as error:  # noqa: BLE001 (raised again unless it is transient)
                attempts.wait(error)
                start = None

    def _send_rest(
        self, url: str, file: BinaryIO, start: int | None, size_bytes: int
    ) -> dict[str, Any] | int:
        """Send a file from `start` on, or with None ask how much of it is stored.

        Returns the object's JSON when it is complete, else how many bytes the service has.
        """
        is_question = start is None or start == size_bytes
        body = b"" if is_question else FileRest(file, start or 0, size_bytes)
        span = "*" if is_question else f"{start}-{size_bytes - 1}"
        headers = {"Content-Range": f"bytes {span}/{size_bytes}"}
        try:
            written: dict[str, Any] = self._session.send(
                "PUT", url, timeout=STORAGE_WRITE.timeout, data=body, headers=headers
            ).json()
        except RequestRefusedError as error:
            if error.code in _SESSION_GONE:
                raise UploadSessionGoneError(str(error)) from error
            if error.code != _UNFINISHED:
                raise
            return _stored_bytes(error.response, size_bytes)
        return written

    def _written(
        self, key: str, described: dict[str, Any], crc32c: int | None, send: Callable[[], Any]
    ) -> dict[str, Any]:
        """Send; when refused or unheard, read back whether it was ours that succeeded."""
        try:
            with translate_errors(f"{self.url}/{key}"):
                written: dict[str, Any] = send()
        except (PreconditionError, TransientError) as error:
            written = self._read_back(key, described["metadata"], error)
        if decode_crc32c(written.get("crc32c")) != crc32c:
            raise IntegrityError(f"{self.url}/{key}: the bytes stored are not the bytes sent")
        return written

    def _read_back(self, key: str, metadata: dict[str, str], error: TpuctlError) -> dict[str, Any]:
        try:
            found = self._properties(key)
        except TransientError as unread:
            raise OutcomeUnknownError(
                f"{self.url}/{key} may or may not have been written: {unread}"
            ) from error
        if found is not None and found.get("metadata") == metadata:
            return found
        raise error

    def _properties(self, key: str) -> dict[str, Any] | None:
        path = f"{self._object(key)}?fields={ITEM_FIELDS},metadata"
        try:
            with translate_errors(f"{self.url}/{key}"):
                found: dict[str, Any] = self._ask("GET", path, STORAGE_METADATA).json()
        except NotFoundError:
            return None
        return found

    def _object(self, key: str) -> str:
        return f"{self._objects}/{quote(key, safe='')}"

    def _upload_path(self, kind: str, generation: int) -> str:
        query = f"uploadType={kind}&ifGenerationMatch={generation}&fields={ITEM_FIELDS}"
        return f"{self._uploads}?{query}"

    def _ask(
        self, method: str, path: str, policy: TransferPolicy, **request: Any
    ) -> requests.Response:
        """The answer to a request that may be sent again."""
        return run_with_retries(
            policy,
            lambda: self._session.send(method, path, timeout=policy.timeout, **request),
        )


def _bucket_path(name: str) -> str:
    return f"{_API}/b/{quote(name, safe='')}"


def _described(key: str, crc32c: int | None = None) -> dict[str, Any]:
    """The JSON of an object to write, with a name of its own for the write."""
    described: dict[str, Any] = {
        "name": key,
        "contentType": content_type(key),
        "metadata": {WRITE_NAME: uuid.uuid4().hex},
    }
    # With the first request, so that the server itself refuses other bytes.
    return described if crc32c is None else described | {"crc32c": encode_crc32c(crc32c)}


def _stored_bytes(response: requests.Response, size_bytes: int) -> int:
    """How much of an upload the service has, of `size_bytes`; raises IntegrityError."""
    text = response.headers.get("Range")
    if text is None:
        return 0
    found = re.fullmatch(r"bytes=0-(\d+)", text)
    if found is None or int(found[1]) >= size_bytes:
        raise _illegal_range(f"{text!r} of {size_bytes} bytes")
    return int(found[1]) + 1


def _illegal_range(said: str) -> IntegrityError:
    return IntegrityError(f"the service reports that it has stored {said} of an upload")


def _length(response: requests.Response, expected: int | None) -> int:
    """How long the object is, as an answer with a part (`bytes 0-9/10`) or all of it says."""
    total = response.headers.get("Content-Range", "").rpartition("/")[2]
    text = total if total.isdecimal() else response.headers.get("Content-Length", "")
    if not text.isdecimal() and expected is None:
        raise ConnectionError("the answer does not say how long the object is")
    return int(text) if text.isdecimal() else expected or 0


def _checksum(response: requests.Response) -> str | None:
    """The CRC-32C of the whole object, where the answer says it."""
    found = re.search(r"crc32c=([^,\s]+)", response.headers.get("X-Goog-Hash", ""))
    return found and found[1]


def _blocks(response: requests.Response, size_bytes: int) -> Iterator[bytes]:
    """What comes of so many bytes; urllib3 raises when the connection ends too early."""
    while size_bytes > 0 and (block := response.raw.read(min(BLOCK_BYTES, size_bytes))):
        size_bytes -= len(block)
        yield block
