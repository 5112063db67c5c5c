"""Arrays in zarr, read by TensorStore where that is installed."""

import importlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpuctl.checkpoint.arrays import dtypes
from tpuctl.checkpoint.arrays.statistics import ArrayStatistics
from tpuctl.errors import IntegrityError
from tpuctl.operations.checkpoints.step_view import TensorView

_NO_RETRIES = {"max_retries": 1}
"""Who answers has tried everything."""
_NOT_THERE = ("NOT_FOUND", "UNAVAILABLE", "DEADLINE_EXCEEDED")
"""How errors begin that say nothing of the bytes: a proxy may stand in the way, for one."""
_COUNTED_AS = {"int4": "int8", "uint4": "uint8"}
TensorStoreArray = Any
"""A tensorstore.TensorStore."""


def open_array(url: str, name: str, *, in_database: bool, driver: str) -> TensorStoreArray | None:
    """Open an array below a URL of HTTP, in an OCDBT database or in a folder of its own.

    Returns None without TensorStore, or when it finds none. Raises IntegrityError when it is
    damaged.
    """
    try:
        tensorstore = importlib.import_module("tensorstore")
    except ImportError:
        return None
    kvstore: dict[str, Any] = {"driver": "http", "base_url": url, "path": f"{name}/"}
    if in_database:
        kvstore = {"driver": "ocdbt", "base": kvstore | {"path": ""}, "path": f"{name}/"}
    spec = {"driver": driver, "kvstore": kvstore, "context": {"http_request_retries": _NO_RETRIES}}
    try:
        return tensorstore.open(spec, read=True).result()
    except (ValueError, OSError) as error:
        if any(status in str(error) for status in _NOT_THERE):
            return None
        raise IntegrityError(f"{name}: it cannot be read: {_first_line(error)}") from error


def measure_array(
    name: str, array: TensorStoreArray, advance: Callable[[int], object]
) -> TensorView:
    """Read an array one chunk at a time: dtype, shape, norm, NaN and Inf.

    `advance` is told of bytes read. Raises IntegrityError when a chunk cannot be read.
    """
    dtype, shape = array.dtype.name, tuple(array.shape)
    if dtype not in dtypes.DTYPES:
        return TensorView(name, dtype, shape)
    found = ArrayStatistics(_COUNTED_AS.get(dtype, dtype))
    for chunk in _chunks(array):
        try:
            elements = array[chunk].read().result()
        except (ValueError, OSError) as error:
            raise IntegrityError(f"{name}: it cannot be read: {_first_line(error)}") from error
        found.add(_stored_bytes(dtype, elements))
        advance(elements.nbytes)
    return TensorView(name, dtype, shape, found.norm, found.nan, found.inf)


def _stored_bytes(dtype: str, elements: NDArray[Any]) -> memoryview:
    """The bytes of elements, four bits in a byte of their own."""
    if dtype in _COUNTED_AS:
        elements = elements.astype(_COUNTED_AS[dtype])
    return np.ascontiguousarray(dtypes.raw_view(elements)).reshape(-1).view(np.uint8).data


def _first_line(error: Exception) -> str:
    return str(error).partition(" [tensorstore_spec")[0].partition("\n")[0]


def _chunks(array: TensorStoreArray) -> Iterator[tuple[slice, ...]]:
    sides = array.chunk_layout.read_chunk.shape or array.shape
    yield from itertools.product(
        *(
            [slice(start, min(start + side, length)) for start in range(0, length, side)]
            for length, side in zip(array.shape, sides, strict=True)
        )
    )
