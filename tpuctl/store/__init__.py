"""Seven calls over a directory or a bucket, every write conditional on a generation.

    store = open_store("gs://bucket/runs")
    entry = store.put_if_absent("COMMIT", b"...")
    store.put_if_generation("COMMIT", b"...", entry.generation)

Imported by training programs, so: Python 3.10.
"""

from __future__ import annotations

import re

from tpuctl.errors import UsageError
from tpuctl.store.buffers import Buffers
from tpuctl.store.crc32c_base64 import crc32c
from tpuctl.store.entry import Entry, Source, Store

__all__ = ["Buffers", "Entry", "Source", "Store", "crc32c", "open_store"]

_ADDRESS = re.compile(r"gs:|[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def open_store(url: str, *, client: object | None = None) -> Store:
    """The store at `gs://bucket/prefix` (through a StorageSession, or the session of
    google-cloud-storage's Client), or at a directory's path.

    Raises UsageError for what is meant as another kind of address, or is empty.
    """
    # `requests` takes long to import, and a directory needs none of it.
    if url.startswith("gs://"):
        from tpuctl.store.gcs.bucket import BucketStore

        return BucketStore(url, client)
    if not url or _ADDRESS.match(url):
        raise UsageError(
            f"{url!r} is not a place to store anything",
            hint="write gs://BUCKET/PREFIX, or the path of a directory",
        )
    from tpuctl.store.directory import DirectoryStore

    return DirectoryStore(url)
