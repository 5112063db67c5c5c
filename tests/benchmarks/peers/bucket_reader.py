"""Reads an object as a training program does: `bucket_reader.py CLIENT gs://BUCKET/NAME BYTES`.

Prints the seconds after the import of the client, wall time and its own processor time, as JSON.
"""

import json
import sys
import time
from collections.abc import Callable


def with_gcsfs(url: str) -> Callable[[int], bytes]:
    import fsspec
    import gcsfs  # noqa: F401 - so that it is not imported when the time is taken

    def read(size_bytes: int) -> bytes:
        files, path = fsspec.url_to_fs(url)
        return files.cat_file(path, 0, size_bytes)

    return read


def with_tensorstore(url: str) -> Callable[[int], bytes]:
    import tensorstore

    def read(size_bytes: int) -> bytes:
        store = tensorstore.KvStore.open(url).result()
        return store.read("", byte_range=slice(0, size_bytes)).result().value

    return read


def with_googles_client(url: str) -> Callable[[int], bytes]:
    from google.cloud import storage

    def read(size_bytes: int) -> bytes:
        blob = storage.Blob.from_string(url, client=storage.Client())
        return blob.download_as_bytes(start=0, end=size_bytes - 1, checksum=None)

    return read


CLIENTS = {"gcsfs": with_gcsfs, "tensorstore": with_tensorstore, "google": with_googles_client}
client, url, size_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
read = CLIENTS[client](url)
wall_s, cpu_s = time.perf_counter(), time.process_time()
found = read(size_bytes)
print(json.dumps([time.perf_counter() - wall_s, time.process_time() - cpu_s]))
assert len(found) == size_bytes
