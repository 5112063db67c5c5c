"""The Rust crate object_store writes, lists and reads objects: obstore_objects.py gs://BUCKET/PREFIX."""

import os
import sys

import obstore
from obstore.store import GCSStore

store = GCSStore.from_url(sys.argv[1])
body = os.urandom(12 << 20)
obstore.put(store, "large", body)
obstore.rename(store, "large", "renamed")
assert bytes(obstore.get_range(store, "renamed", start=5, length=100)) == body[5:105]
assert bytes(obstore.get(store, "renamed").bytes()) == body
print([each["path"] for batch in obstore.list(store) for each in batch], "equal")
