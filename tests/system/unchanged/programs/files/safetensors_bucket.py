"""Tensors in an object, read whole and one by its range: safetensors_bucket.py gs://BUCKET/FILE."""

import json
import sys

import fsspec
import numpy as np
from safetensors.numpy import load, save

tensors = {
    "weights": np.random.default_rng(0).standard_normal((512, 256)).astype(np.float32),
    "steps": np.arange(1000),
}
with fsspec.open(sys.argv[1], "wb") as file:
    file.write(save(tensors, metadata={"step": "3"}))
with fsspec.open(sys.argv[1], "rb") as file:
    found = load(file.read())
for name, tensor in tensors.items():
    np.testing.assert_array_equal(found[name], tensor)
with fsspec.open(sys.argv[1], "rb") as file:
    length = int.from_bytes(file.read(8), "little")
    header = json.loads(file.read(length))
    start, end = header["steps"]["data_offsets"]
    file.seek(8 + length + start)
    np.testing.assert_array_equal(np.frombuffer(file.read(end - start), np.int64), tensors["steps"])
print(f"{sorted(found)} of step {header['__metadata__']['step']}, equal")
