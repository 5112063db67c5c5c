"""The tensors of a step of another framework: names, shapes, dtypes and norms.

Names of Orbax's arrays come from its JSON; the rest is read by TensorStore where that is installed.
"""

import base64
import importlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpuctl.checkpoint.arrays import dtypes
from tpuctl.checkpoint.arrays.statistics import ArrayStatistics, measure
from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.operations.checkpoints.foreign import dcp, orbax, safetensors_folder
from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
from tpuctl.operations.checkpoints.foreign.loopback import serve_folder
from tpuctl.operations.checkpoints.foreign.safetensors_folder import SafetensorsTensor
from tpuctl.operations.checkpoints.foreign.step_folder import StepFolder, read_blocks
from tpuctl.operations.checkpoints.step_view import CheckpointKind, TensorView

_NUMPY_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
_NO_RETRIES = {"max_retries": 1}
"""Who answers has tried everything."""
_NOT_THERE = ("NOT_FOUND", "UNAVAILABLE", "DEADLINE_EXCEEDED")
"""How errors begin that say nothing of the bytes: a proxy may stand in the way, for one."""
_COUNTED_AS = {"int4": "int8", "uint4": "uint8"}
TensorStoreArray = Any
"""A tensorstore.TensorStore."""


def tensors(
    step: ForeignStep, advance: Callable[[int], object] = lambda _: None
) -> Iterator[TensorView]:
    """Yield the tensors, with norms where they can be read; `advance` gets the bytes read.

    Raises IntegrityError; PreconditionError for DCP, of which nothing is known without its pickle.
    """
    if step.view.kind is CheckpointKind.DCP:
        raise PreconditionError(
            f"the tensors of {step.view.name} cannot be listed: {dcp.NOT_OPENED}"
        )
    if step.view.kind is CheckpointKind.ORBAX:
        return _orbax_tensors(step.folder, advance)
    return _safetensors_tensors(step.folder, advance)


def _safetensors_tensors(
    folder: StepFolder, advance: Callable[[int], object]
) -> Iterator[TensorView]:
    for path in safetensors_folder.files(folder):
        for tensor in safetensors_folder.header(folder, path):
            yield _measure_tensor(folder, path, tensor)
            advance(tensor.end - tensor.start)


def _measure_tensor(folder: StepFolder, path: str, tensor: SafetensorsTensor) -> TensorView:
    dtype = safetensors_folder.DTYPE_NAMES.get(tensor.dtype)
    if dtype is None:
        return TensorView(tensor.name, tensor.dtype, tensor.shape)
    statistics = measure(dtype, read_blocks(folder, path, tensor.start, tensor.end))
    return TensorView(
        tensor.name, dtype, tensor.shape, statistics.norm, statistics.nan, statistics.inf
    )


def _orbax_tensors(folder: StepFolder, advance: Callable[[int], object]) -> Iterator[TensorView]:
    """Yield the arrays of all items; IntegrityError when they are not what Orbax wrote."""
    with serve_folder(folder) as server:
        for item in orbax.items(folder):
            try:
                yield from _item_tensors(folder, item, server.url, advance)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise IntegrityError(
                    f"{folder.prefix}{item}: it has no metadata of tensors"
                ) from error
            except IntegrityError as error:
                # TensorStore was told no more than that there is no answer.
                raise server.failure or error from error


def _item_tensors(
    folder: StepFolder, item: str, url: str, advance: Callable[[int], object]
) -> Iterator[TensorView]:
    metadata = folder.json(item + orbax.TREE_METADATA)
    shapes = _shapes(folder, item)
    in_database = f"{item}{orbax.DATABASE}" in folder.files
    driver = "zarr3" if metadata.get("use_zarr3") else "zarr"
    for name, described in _arrays(metadata):
        array = _open_array(
            f"{url}/{item}".rstrip("/"), name, in_database=in_database, driver=driver
        )
        if array is None:
            shape = described.get("write_shape") if name in shapes else None
            yield _tensor_by_json(folder, item, name, shape)
        else:
            yield _measure_array(f"{item}{name}", array, advance)


def _arrays(metadata: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each array as it is stored, and what is said of it."""
    for array in metadata["tree_metadata"].values():
        described = array["value_metadata"]
        if not described.get("skip_deserialize") and described.get("value_type") != "string":
            yield ".".join(str(key["key"]) for key in array["key_metadata"]), described


def _shapes(folder: StepFolder, item: str) -> set[str]:
    """The arrays that were on one device each: what was written is all of it."""
    if f"{item}_sharding" not in folder.files:
        return set()
    return {
        base64.b64decode(name).decode()
        for name, sharding in folder.json(f"{item}_sharding").items()
        if "SingleDeviceSharding" in sharding
    }


def _tensor_by_json(
    folder: StepFolder, item: str, name: str, shape: list[int] | None
) -> TensorView:
    for path, field in ((".zarray", "dtype"), ("zarr.json", "data_type")):
        if f"{item}{name}/{path}" in folder.files:
            described = folder.json(f"{item}{name}/{path}")
            return TensorView(
                f"{item}{name}", _zarr_dtype(str(described[field])), tuple(described["shape"])
            )
    return TensorView(f"{item}{name}", None, None if shape is None else tuple(shape))


def _zarr_dtype(text: str) -> str:
    """<f4, as zarr 2 has it, becomes float32; other names stay."""
    if text[:1] in ("<", ">", "|"):
        kind = np.dtype(text)
        return kind.name if kind.kind in _NUMPY_KINDS else text
    return text


def _open_array(url: str, name: str, *, in_database: bool, driver: str) -> TensorStoreArray | None:
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


def _measure_array(
    name: str, array: TensorStoreArray, advance: Callable[[int], object]
) -> TensorView:
    """Read an array one chunk at a time: dtype, shape, norm, NaN and Inf.

    `advance` gets the number of bytes read. Raises IntegrityError when a chunk cannot be read.
    """
    dtype, shape = array.dtype.name, tuple(array.shape)
    if dtype not in dtypes.DTYPES:
        return TensorView(name, dtype, shape)
    statistics = ArrayStatistics(_COUNTED_AS.get(dtype, dtype))
    for chunk in _chunks(array):
        try:
            elements = array[chunk].read().result()
        except (ValueError, OSError) as error:
            raise IntegrityError(f"{name}: it cannot be read: {_first_line(error)}") from error
        statistics.add(_stored_bytes(dtype, elements))
        advance(elements.nbytes)
    return TensorView(name, dtype, shape, statistics.norm, statistics.nan, statistics.inf)


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
