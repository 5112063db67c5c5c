"""Six calls over a directory or a bucket, every write conditional on a generation.

    store = open_store("gs://bucket/runs")
    entry = store.put_if_absent("COMMIT", b"...")
    store.put_if_generation("COMMIT", b"...", entry.generation)

Imported by training programs, so: Python 3.10.
"""

from __future__ import annotations

from tpuctl.store.directory import DirectoryStore
from tpuctl.store.entry import Entry, Source, Store, crc32c

__all__ = ["Entry", "Source", "Store", "crc32c", "open_store"]


def open_store(url: str, *, client: object | None = None) -> Store:
    """The store at `gs://bucket/prefix` (through a storage Client), or at a directory's path."""
    if url.startswith("gs://"):
        # Google's client costs a third of a second to import, and a directory needs none of it.
        from tpuctl.store.bucket import BucketStore

        return BucketStore(url, client)
    return DirectoryStore(url)
