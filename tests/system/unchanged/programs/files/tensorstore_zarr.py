"""TensorStore writes and reads a chunked array: tensorstore_zarr.py gs://BUCKET/ARRAY/."""

import sys

import numpy as np
import tensorstore as ts

spec = {"driver": "zarr3", "kvstore": sys.argv[1]}
values = np.random.default_rng(0).standard_normal((512, 1024), np.float32)
ts.open(
    spec,
    create=True,
    delete_existing=True,
    dtype=ts.float32,
    shape=values.shape,
    chunk_layout=ts.ChunkLayout(chunk_shape=[128, 256]),
).result()[...] = values
found = ts.open(spec, open=True, read=True).result()
np.testing.assert_array_equal(found[100:300, 200:900].read().result(), values[100:300, 200:900])
keys = ts.KvStore.open(sys.argv[1]).result().list().result()
print(f"{len(keys)} objects, shape {found.shape}, equal")
