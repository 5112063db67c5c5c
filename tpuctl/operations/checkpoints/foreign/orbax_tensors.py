"""The arrays of a step of Orbax: names from its JSON, the rest by TensorStore if installed."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tpuctl.errors import IntegrityError
from tpuctl.operations.checkpoints.foreign import orbax, tensorstore_arrays
from tpuctl.operations.checkpoints.foreign.loopback import serve_folder
from tpuctl.operations.checkpoints.foreign.step_folder import StepFolder
from tpuctl.operations.checkpoints.step_view import TensorView

_NUMPY_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}


def tensors(folder: StepFolder, advance: Callable[[int], object]) -> Iterator[TensorView]:
    """Yield the arrays of all items; IntegrityError when they are not what Orbax wrote."""
    with serve_folder(folder) as server:
        for item in orbax.items(folder):
            try:
                yield from _item_tensors(folder, item, server.url, advance)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise IntegrityError(f"{folder.prefix}{item}: its metadata is none") from error
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
        array = tensorstore_arrays.open_array(
            f"{url}/{item}".rstrip("/"), name, in_database=in_database, driver=driver
        )
        if array is None:
            shape = described.get("write_shape") if name in shapes else None
            yield _tensor_by_json(folder, item, name, shape)
        else:
            yield tensorstore_arrays.measure_array(f"{item}{name}", array, advance)


def _arrays(metadata: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each array as it is stored, and what is said of it."""
    for each in metadata["tree_metadata"].values():
        described = each["value_metadata"]
        if not described.get("skip_deserialize") and described.get("value_type") != "string":
            yield ".".join(str(key["key"]) for key in each["key_metadata"]), described


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
                f"{item}{name}", _dtype(str(described[field])), tuple(described["shape"])
            )
    return TensorView(f"{item}{name}", None, None if shape is None else tuple(shape))


def _dtype(text: str) -> str:
    """<f4, as zarr 2 has it, becomes float32; other names stay."""
    if text[:1] in ("<", ">", "|"):
        kind = np.dtype(text)
        return kind.name if kind.kind in _NUMPY_KINDS else text
    return text
