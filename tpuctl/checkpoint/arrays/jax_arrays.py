"""Arrays of JAX: which boxes lie on which device, of this process and of all processes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tpuctl.checkpoint.arrays.boxes import Box, whole_box
from tpuctl.checkpoint.arrays.dtypes import Array, name_of, numpy_dtype, raw_view
from tpuctl.checkpoint.arrays.leaves import BoxView, ExpectedLeaf, LeafValue, cut, share
from tpuctl.checkpoint.arrays.numpy_arrays import replicated_leaf
from tpuctl.errors import UsageError

Index = tuple[slice, ...]


def describe(value: object, index: int) -> LeafValue | None:
    """The leaf of an array of JAX, None for another value; UsageError for one without numbers."""
    jax: Any = sys.modules["jax"]
    if not isinstance(value, jax.Array):
        return None
    array: Any = value
    _check(jax, array)
    name, shape = _name(array.dtype), tuple(array.shape)
    sharding = _describe_sharding(jax, array.sharding)
    if 0 in shape:
        empty = replicated_leaf(np.empty(shape, numpy_dtype(name)), index)
        return LeafValue(name, shape, empty.own, sharding)

    def own(worker_id: int, worker_count: int) -> list[BoxView]:
        holders = _holders(array.sharding, shape)
        if array.is_fully_addressable:
            holders = dict.fromkeys(holders, tuple(range(worker_count)))
        else:
            _check_processes(jax, worker_id, worker_count)
            _check_holders(holders)
        return _own(array, holders, worker_id, index)

    return LeafValue(name, shape, own, sharding)


def expect(like: object, _dtype: str) -> ExpectedLeaf | None:
    """Read into an array with the sharding of `like`, or of a ShapeDtypeStruct; None for others."""
    jax: Any = sys.modules["jax"]
    if not isinstance(like, jax.Array | jax.ShapeDtypeStruct):
        return None
    name, shape = _name(like.dtype), tuple(like.shape)
    _check_width(jax, like.dtype)
    sharding = like.sharding
    if not getattr(like, "committed", getattr(like, "_committed", True)):
        # JAX was left to choose the device: it may choose again, beside other arrays.
        return ExpectedLeaf(
            name,
            shape,
            (whole_box(shape),),
            lambda arrays: jax.device_put(arrays[0].view(numpy_dtype(name))),
        )
    boxes = _needed_boxes(sharding, shape)

    def finish(arrays: Sequence[Array]) -> object:
        dtype = numpy_dtype(name)
        if not boxes:
            return jax.make_array_from_single_device_arrays(shape, sharding, [], dtype=dtype)
        parts = {box: array.view(dtype) for box, array in zip(boxes, arrays, strict=True)}
        return jax.make_array_from_callback(shape, sharding, lambda at: parts[_box(at, shape)])

    return ExpectedLeaf(name, shape, boxes, finish)


def _own(
    array: Any, holders: Mapping[Box, Sequence[int]], worker_id: int, index: int
) -> list[BoxView]:
    shape = tuple(array.shape)
    here = {_box(shard.index, shape): shard.data for shard in array.addressable_shards}
    mine = {box: share(box, holders[box], worker_id, index) for box in here}
    for box, parts in mine.items():
        if parts:
            # All chips of this host at once.
            here[box].copy_to_host_async()
    return [
        (part, cut(raw_view(np.asarray(here[box])), box, part))
        for box, parts in mine.items()
        for part in parts
    ]


@functools.lru_cache(maxsize=1024)
def _holders(sharding: Any, shape: tuple[int, ...]) -> Mapping[Box, tuple[int, ...]]:
    """Each distinct box of an array, and the processes that hold it."""
    found: dict[Box, set[int]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        found.setdefault(_box(index, shape), set()).add(device.process_index)
    return {box: tuple(sorted(processes)) for box, processes in found.items()}


def _needed_boxes(sharding: Any, shape: tuple[int, ...]) -> tuple[Box, ...]:
    """Each distinct box on this process's devices: what several hold is read once."""
    try:
        indices = sharding.addressable_devices_indices_map(shape).values()
    except ValueError as error:
        # eval_shape gives a mesh without devices; and not every shape can be cut as it is asked.
        raise UsageError(
            f"the sharding of like has no place for it: {str(error).splitlines()[0]}",
            hint="jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))",
        ) from error
    return tuple(dict.fromkeys(_box(index, shape) for index in indices))


def _box(index: Index, shape: tuple[int, ...]) -> Box:
    ends = [each.indices(length) for each, length in zip(index, shape, strict=True)]
    return Box(tuple(start for start, _, _ in ends), tuple(stop - start for start, stop, _ in ends))


def _describe_sharding(jax: Any, sharding: Any) -> dict[str, Any] | None:
    if not isinstance(sharding, jax.sharding.NamedSharding):
        return None
    mesh = {str(axis): int(size) for axis, size in sharding.mesh.shape.items()}
    return {"mesh": mesh, "spec": [_axes(each) for each in sharding.spec]}


def _axes(entry: object) -> str | list[str] | None:
    if isinstance(entry, tuple):
        return [str(axis) for axis in entry]
    return entry if isinstance(entry, str) else None


def _check_width(jax: Any, dtype: Any) -> None:
    found = jax.dtypes.canonicalize_dtype(dtype)
    if found != dtype:
        raise UsageError(
            f"JAX would make {found} of {dtype}", hint='jax.config.update("jax_enable_x64", True)'
        )


def _check(jax: Any, array: Any) -> None:
    if isinstance(array, jax.core.Tracer):
        raise UsageError("JAX is tracing it", hint="save outside of jit, grad and vmap")
    if array.is_deleted():
        raise UsageError("the array was deleted or donated", hint="save before it is donated")


def _name(dtype: Any) -> str:
    if dtype.name.startswith("key<"):
        raise UsageError("a typed key has no numbers to save", hint="save jax.random.key_data(key)")
    return name_of(dtype)


def _check_processes(jax: Any, worker_id: int, worker_count: int) -> None:
    if (jax.process_index(), jax.process_count()) != (worker_id, worker_count):
        raise UsageError(
            f"this is worker {worker_id} of {worker_count}, "
            f"but process {jax.process_index()} of {jax.process_count()} for JAX",
            hint="give jax.distributed.initialize the worker's id and their number",
        )


def _check_holders(holders: Mapping[Box, Sequence[int]]) -> None:
    processes = {process for each in holders.values() for process in each}
    if len(processes) == 1:
        # That process takes it for one of those that are the same on all workers.
        raise UsageError(
            f"it lies on the devices of process {processes.pop()} alone",
            hint="place it on a mesh over the devices of all processes",
        )
