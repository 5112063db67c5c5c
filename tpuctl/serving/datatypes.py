"""The datatypes of the Open Inference Protocol, and the arrays of numpy that hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Batch = dict[str, Array]
"""Arrays by name; the first axis of each counts the rows, and all have the same number of them."""

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BF16": np.dtype("<f4"),
    "BYTES": np.dtype(object),
}
"""What the program gets of each: BF16 is float32 of the same value, BYTES are objects `bytes`."""
_DATATYPES = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}


def datatype_of(array: Array) -> str | None:
    """The datatype of an array; None where the protocol has none, as for complex numbers."""
    dtype = array.dtype
    found = _DATATYPES.get(dtype)
    if found is not None:
        return found
    if dtype.name == "bfloat16":  # of ml_dtypes, which JAX brings
        return "BF16"
    return "BYTES" if dtype.kind in "SU" else _DATATYPES.get(dtype.newbyteorder("<"))
