"""A process of JAX with some of eight CPU devices: what it would store of a tree, and restore.

    python jax_worker.py WORKER_ID WORKER_COUNT PORT DIRECTORY

Writes the parts to DIRECTORY/<worker>.npz and what it found to DIRECTORY/<worker>.json.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tpuctl.checkpoint.arrays import leaves as checkpoint_leaves
from tpuctl.checkpoint.arrays.array_tree import flatten, leaf_paths, unflatten
from tpuctl.checkpoint.arrays.dtypes import allocate_aligned, raw_dtype
from tpuctl.checkpoint.format.commit_schema import Leaf
from tpuctl.checkpoint.read.targets import read_targets
from tpuctl.errors import UsageError

WHOLE = {
    "sharded": np.arange(64, dtype=np.float32).reshape(8, 8),
    "partly": np.arange(24).reshape(6, 4).astype(jnp.bfloat16),
    "replicated": np.arange(-2, 3).astype(jnp.int4),
    "one": np.arange(3, dtype=np.int32),
    "empty": np.zeros((0, 4), np.int8),
}
SPECS = {"sharded": P("x", "y"), "partly": P(None, ("y",)), "empty": P(None, "y")}


def place(shape):
    """The tree on a mesh of all devices; `one` on a device of this process."""
    mesh = Mesh(np.array(jax.devices()).reshape(shape), ("x", "y"))
    shardings = {name: NamedSharding(mesh, SPECS.get(name, P())) for name in WHOLE}
    tree = {
        name: jax.make_array_from_callback(array.shape, shardings[name], array.__getitem__)
        for name, array in WHOLE.items()
    }
    return tree | {"one": jnp.asarray(WHOLE["one"])}


def error_of(function, *arguments):
    try:
        function(*arguments)
    except UsageError as error:
        return str(error)
    return ""


def save(tree, worker_id, worker_count, directory):
    structure, leaves = flatten(tree)
    parts, boxes = {}, []
    for path, leaf in zip(leaf_paths(structure), leaves, strict=True):
        for box, elements in leaf.own(worker_id, worker_count):
            parts[str(len(boxes))] = elements
            boxes.append([path, box.offset, box.shape])
    np.savez(directory / f"{worker_id}.npz", **parts)
    described = {
        path: [leaf.dtype, leaf.shape, leaf.sharding]
        for path, leaf in zip(leaf_paths(structure), leaves, strict=True)
    }
    wrong = (worker_id + 1) % 2
    return {
        "boxes": boxes,
        "leaves": described,
        "wrong_worker": error_of(lambda: [leaf.own(wrong, 2) for leaf in leaves]),
    }


def read(structure, like):
    """Restore the tree as in `like`: its leaves by path, and the boxes that were read of each."""
    paths = leaf_paths(structure)
    leaves = [Leaf(WHOLE[path].dtype.name, WHOLE[path].shape, None, ()) for path in paths]
    found, values = read_targets(structure, leaves, like), []
    for path, target in zip(paths, found, strict=True):
        raw = WHOLE[path].view(raw_dtype(WHOLE[path].dtype.name))
        arrays = [allocate_aligned(box.shape, target.dtype) for box in target.boxes]
        for box, array in zip(target.boxes, arrays, strict=True):
            array[...] = raw[box.slices]
        values.append(target.finish(arrays))
    boxes = {path: len(target.boxes) for path, target in zip(paths, found, strict=True)}
    return unflatten(structure, values, like), boxes


def is_right(array, expected, like):
    """The same sharding as `like`, and on each device its part of the numbers."""
    return (
        array.dtype == expected.dtype
        and (like.sharding is None or array.sharding == like.sharding)
        and all(
            np.array_equal(np.asarray(shard.data), expected[shard.index])
            for shard in array.addressable_shards
        )
    )


def restore(tree):
    structure, _ = flatten(tree)
    other = place((2, 4))
    like = {
        name: jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=each.sharding)
        for name, each in other.items()
    } | {"one": other["one"]}
    restored, boxes = read(structure, like)
    return {
        "right": {name: is_right(restored[name], WHOLE[name], like[name]) for name in WHOLE},
        "boxes_read": boxes,
        "one_committed": restored["one"].committed,
    }


def refused():
    """What cannot be saved or restored, and what is said about it."""
    gone = jnp.ones(3)
    gone.delete()
    structure, leaves = flatten(np.ones(3))
    stored = [Leaf(leaf.dtype, leaf.shape, None, ()) for leaf in leaves]
    like = jax.ShapeDtypeStruct((3,), np.float64)
    nowhere = NamedSharding(Mesh(np.array(jax.devices()), "x").abstract_mesh, P("x"))
    abstract = jax.ShapeDtypeStruct((8,), np.float32, sharding=nowhere)
    return {
        "abstract": error_of(read_targets, structure, stored, abstract),
        "traced": error_of(jax.jit(lambda x: [flatten([x]), x][1]), jnp.ones(3)),
        "deleted": error_of(flatten, [gone]),
        "key": error_of(flatten, [jax.random.key(0)]),
        "wide": error_of(read_targets, structure, stored, like),
        "shape": error_of(read_targets, structure, stored, jnp.ones(4)),
    }


def main(worker_id, worker_count, port, directory):
    checkpoint_leaves.LEAST_SHARE = 1  # else none of these arrays is cut
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8 // worker_count)
    if worker_count > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", worker_count, worker_id)
    tree = place((4, 2))
    found = save(tree, worker_id, worker_count, directory) | {"restored": restore(tree)}
    found |= {"refused": refused()}
    (directory / f"{worker_id}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
