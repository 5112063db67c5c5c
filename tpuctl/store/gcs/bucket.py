"""A part of a bucket as a store: each write names the generation it replaces."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from tpuctl.errors import PreconditionError, UsageError
from tpuctl.network_policy import STORAGE_DELETE_TRIES
from tpuctl.store.buffers import Buffers
from tpuctl.store.entry import Entry, Source
from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo
from tpuctl.store.gcs.json_api import StorageSession, translate_errors

_CONNECTIONS = 32
"""Kept for the next request; what is beyond is thrown away, with a warning each time."""


class BucketStore:
    """Objects below a prefix of one bucket."""

    def __init__(self, url: str, client: Any = None) -> None:
        """Talk through a StorageSession, or through that of google-cloud-storage's Client.

        Without one, Client() finds credentials and endpoint by its own rules.
        """
        name, _, prefix = url.removeprefix("gs://").partition("/")
        if not name:
            raise UsageError(f"{url!r} does not name a bucket", hint="write gs://BUCKET/PREFIX")
        if not (name[0].isalnum() and name[-1].isalnum()):
            rule = "Bucket names must start and end with a number or letter."
            raise UsageError(f"{name!r} cannot be a bucket: {rule}")
        self._prefix = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
        self._url = f"gs://{name}/{self._prefix}".rstrip("/")
        with translate_errors(self._url):
            self._bucket = BulkBucket(name, _session_of(client))

    @property
    def url(self) -> str:
        """`gs://bucket/prefix`."""
        return self._url

    def put_if_absent(self, key: str, data: Source) -> Entry:
        """Create an object; PreconditionError when it exists."""
        return self.put_if_generation(key, data, 0)

    def put_if_generation(self, key: str, data: Source, generation: int) -> Entry:
        """Replace that generation (0: nothing); PreconditionError when it is another."""
        name = self._prefix + key
        if isinstance(data, Buffers):
            found = self._bucket.upload(
                name, data.blocks, data.size_bytes, data.value, generation=generation
            )
        else:
            file = io.BytesIO(data) if isinstance(data, bytes) else data
            found = self._bucket.upload_resumable(name, file, generation=generation)
        return self._entry(found)

    def get_range(
        self, key: str, start: int = 0, end: int | None = None, *, generation: int | None = None
    ) -> bytes:
        """Bytes from start up to, not including, end; NotFoundError. A whole read is verified."""
        if end is not None and end <= start:
            return b""
        return self._bucket.read(self._prefix + key, start, end, generation=generation)

    def read_into(self, key: str, start: int, buffer: memoryview, *, generation: int) -> None:
        """Fill a buffer with the bytes from start on of that generation, unverified.

        NotFoundError without it; IntegrityError when it ends before the buffer does.
        """
        filled = 0

        def fill(block: bytes) -> None:
            nonlocal filled
            buffer[filled : filled + len(block)] = block
            filled += len(block)

        self._bucket.download(self._prefix + key, generation, start, start + buffer.nbytes, fill)

    def head(self, key: str) -> Entry | None:
        """What is known of an object, or None."""
        found = self._bucket.find(self._prefix + key)
        return None if found is None else self._entry(found)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Every object whose key starts with the prefix, in the order of keys."""
        for found in self._bucket.list(self._prefix + prefix, is_ahead=False):
            yield self._entry(found)

    def delete(self, key: str, *, generation: int | None = None) -> bool:
        """Remove an object; False when there was none, PreconditionError when it changed."""
        if generation is not None:
            return self._bucket.delete(self._prefix + key, generation)
        for _ in range(STORAGE_DELETE_TRIES):
            entry = self.head(key)
            if entry is None:
                return False
            try:
                return self._bucket.delete(self._prefix + key, entry.generation)
            except PreconditionError:
                continue
        raise PreconditionError(f"{self._url}/{key} changes faster than it can be deleted")

    def _entry(self, found: ObjectInfo) -> Entry:
        key = found.key.removeprefix(self._prefix)
        return Entry(key, found.size_bytes, found.generation, found.checksum or "", found.updated_s)


def _session_of(client: Any) -> StorageSession:
    if isinstance(client, StorageSession):
        return client
    if client is None:
        client = _new_client()
    # The only way to its credentials, their renewal and its proxies; Google's own examples use it.
    return StorageSession(client._http, client.api_endpoint)  # noqa: SLF001


def _new_client() -> Any:
    """A Client that finds its own credentials, with connections for many requests at once."""
    from google.cloud.storage import Client
    from requests.adapters import HTTPAdapter

    client = Client()
    session = client._http  # noqa: SLF001 - see above
    if not session.is_mtls:
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
    return client
