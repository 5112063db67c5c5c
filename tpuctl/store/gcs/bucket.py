"""A bucket as a store, through google-cloud-storage: each write names the generation it replaces.

The library sends a request again when the reply is lost, and the second is then refused because
the first had succeeded. Every put therefore carries a name of its own in the object's metadata:
who is refused, or hears nothing, reads the object back and knows whether it is the own one.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from google.cloud import storage
from requests.adapters import HTTPAdapter

from tpuctl.errors import (
    NotFoundError,
    OutcomeUnknownError,
    PreconditionError,
    TransientError,
    UsageError,
)
from tpuctl.network_policy import (
    STORAGE_DELETE_TRIES,
    STORAGE_METADATA,
    STORAGE_READ,
    STORAGE_WRITE,
)
from tpuctl.store.buffers import Buffers
from tpuctl.store.entry import WRITE_NAME, Entry, Source, measure_source
from tpuctl.store.gcs.backoff import library_arguments
from tpuctl.store.gcs.bulk import BulkBucket
from tpuctl.store.gcs.content_types import content_type
from tpuctl.store.gcs.google_errors import RangeError, translate_errors

_FIELDS = "items(name,size,generation,crc32c,updated),nextPageToken"
_CONNECTIONS = 32
"""Kept for the next request; what is beyond is thrown away, with a warning each time."""


class BucketStore:
    """Objects below a prefix of one bucket."""

    def __init__(self, url: str, client: Any = None) -> None:
        """Talk through `client`; without one, through Client() by its own rules."""
        name, _, prefix = url.removeprefix("gs://").partition("/")
        if not name:
            raise UsageError(f"{url!r} names no bucket", hint="write gs://BUCKET/PREFIX")
        self._prefix = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
        self._url = f"gs://{name}/{self._prefix}".rstrip("/")
        try:
            with translate_errors(self._url):
                self._bucket = (_client() if client is None else client).bucket(name)
        except ValueError as error:
            raise UsageError(f"{name!r} cannot be a bucket: {error}") from error

    @property
    def url(self) -> str:
        """`gs://bucket/prefix`."""
        return self._url

    def put_if_absent(self, key: str, data: Source) -> Entry:
        """Create an object; PreconditionError when it exists."""
        return self.put_if_generation(key, data, 0)

    def put_if_generation(self, key: str, data: Source, generation: int) -> Entry:
        """Replace that generation (0: nothing); PreconditionError when it is another."""
        if isinstance(data, Buffers):
            return self._put_buffers(key, data, generation)
        size_bytes, crc32c = measure_source(data)
        blob = self._blob(key)
        write_name = uuid.uuid4().hex
        blob.metadata = {WRITE_NAME: write_name}
        blob.content_type = content_type(key)
        # Sent with the first request, so that the server itself refuses other bytes.
        blob.crc32c = crc32c
        try:
            with translate_errors(f"{self._url}/{key}"):
                blob.upload_from_file(
                    io.BytesIO(data) if isinstance(data, bytes) else data,
                    size=size_bytes,
                    if_generation_match=generation,
                    checksum="crc32c",
                    **library_arguments(STORAGE_WRITE),
                )
        except (PreconditionError, TransientError) as error:
            return self._read_back(key, write_name, error)
        return _entry(key, blob)

    def get_range(
        self, key: str, start: int = 0, end: int | None = None, *, generation: int | None = None
    ) -> bytes:
        """Bytes from start up to, not including, end; NotFoundError. A whole read is verified."""
        if end is not None and end <= start:
            return b""
        # A read that is cut off goes on with the generation it began with: the library sees to it.
        try:
            with translate_errors(f"{self._url}/{key}"):
                data: bytes = self._blob(key, generation).download_as_bytes(
                    start=start or None,
                    end=None if end is None else end - 1,
                    raw_download=True,
                    checksum="crc32c",
                    **library_arguments(STORAGE_READ),
                )
        except RangeError:
            return b""
        return data

    def read_into(self, key: str, start: int, buffer: memoryview, *, generation: int) -> None:
        """Fill a buffer with the bytes from start on of that generation, unverified.

        NotFoundError without it; IntegrityError when it ends before the buffer does.
        """
        filled = 0

        def fill(block: bytes) -> None:
            nonlocal filled
            buffer[filled : filled + len(block)] = block
            filled += len(block)

        end = start + buffer.nbytes
        with translate_errors(f"{self._url}/{key}"):
            self._bulk.download(self._prefix + key, generation, start, end, fill)

    def head(self, key: str) -> Entry | None:
        """What is known of an object, or None."""
        blob = self._found(key)
        return None if blob is None else _entry(key, blob)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Every object whose key starts with the prefix, in the order of keys."""
        with translate_errors(f"{self._url}/{prefix}"):
            for blob in self._bucket.client.list_blobs(
                self._bucket,
                prefix=self._prefix + prefix,
                fields=_FIELDS,
                **library_arguments(STORAGE_METADATA),
            ):
                yield _entry(blob.name.removeprefix(self._prefix), blob)

    def delete(self, key: str, *, generation: int | None = None) -> bool:
        """Remove an object; False when there was none, PreconditionError when it changed."""
        if generation is not None:
            return self._delete(key, generation)
        for _ in range(STORAGE_DELETE_TRIES):
            entry = self.head(key)
            if entry is None:
                return False
            try:
                return self._delete(key, entry.generation)
            except PreconditionError:
                continue
        raise PreconditionError(f"{self._url}/{key} changes faster than it can be deleted")

    @cached_property
    def _bulk(self) -> BulkBucket:
        """The same bucket without the library's own copies of what is sent and received."""
        client = self._bucket.client
        session = client._http  # noqa: SLF001 - its session: its credentials and their renewal
        return BulkBucket(
            self._bucket.name,
            session=session,
            endpoint=client.api_endpoint,
            client=lambda: client,
        )

    def _put_buffers(self, key: str, data: Buffers, generation: int) -> Entry:
        with translate_errors(f"{self._url}/{key}"):
            found = self._bulk.put(
                self._prefix + key, data.blocks, data.size_bytes, data.value, generation=generation
            )
        return Entry(key, found.size_bytes, found.generation, found.checksum or "", found.updated_s)

    def _delete(self, key: str, generation: int) -> bool:
        try:
            with translate_errors(f"{self._url}/{key}"):
                self._blob(key).delete(
                    if_generation_match=generation, **library_arguments(STORAGE_METADATA)
                )
        except NotFoundError:
            return False
        return True

    def _read_back(self, key: str, write_name: str, error: Exception) -> Entry:
        try:
            blob = self._found(key)
        except TransientError as unread:
            raise OutcomeUnknownError(
                f"{self._url}/{key} may or may not have been written: {unread}"
            ) from error
        if blob is not None and (blob.metadata or {}).get(WRITE_NAME) == write_name:
            return _entry(key, blob)
        raise error

    def _found(self, key: str) -> storage.Blob | None:
        with translate_errors(f"{self._url}/{key}"):
            return self._bucket.get_blob(self._prefix + key, **library_arguments(STORAGE_METADATA))

    def _blob(self, key: str, generation: int | None = None) -> storage.Blob:
        return self._bucket.blob(self._prefix + key, generation=generation)


def _entry(key: str, blob: storage.Blob) -> Entry:
    return Entry(key, blob.size, blob.generation, blob.crc32c, blob.updated.timestamp())


def _client() -> storage.Client:
    """The library's own, by its own rules, with connections for many requests at once."""
    client = storage.Client()
    session = client._http  # noqa: SLF001 - as Google's own examples do it
    if not session.is_mtls:
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
    return client
