"""Google's client writes, lists, composes and reads objects: storage_client.py gs://BUCKET/PREFIX."""

import os
import sys

from google.cloud import storage

bucket_name, _, prefix = sys.argv[1].removeprefix("gs://").partition("/")
bucket = storage.Client().bucket(bucket_name)
parts = [bucket.blob(f"{prefix}/{number}", chunk_size=1 << 18) for number in range(3)]
bodies = [os.urandom(1 << 20) for _ in parts]
for part, body in zip(parts, bodies, strict=True):
    part.upload_from_string(body, checksum="crc32c")
whole = bucket.blob(f"{prefix}/whole")
whole.compose(parts)
assert whole.download_as_bytes(checksum="crc32c") == b"".join(bodies)
bucket.delete_blobs(parts)
print([blob.name.rpartition("/")[2] for blob in bucket.list_blobs(prefix=f"{prefix}/")])
