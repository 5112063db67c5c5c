"""One checkpoint through gangs of 1, 4, 2, 8 and 1 workers, split another way each time: no bit
changes on the way."""

import math

import numpy as np
import pytest

from tpuctl.checkpoint import Checkpointer, Shards, restore
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore
from unit.checkpoint.runs import together

ml_dtypes = pytest.importorskip("ml_dtypes")

GANGS = (1, 4, 2, 8, 1)
WAYS = ("rows", "columns", "grid", "whole")
SHAPES = [(16, 6), (7, 5), (3,), (1, 9, 2), (), (0, 4), (33,), (2, 2, 2, 3)]
DTYPES = [
    "float32", "float64", "float16", "bool", "int8", "uint64", "complex64",
    *map(np.dtype, (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4)),
]  # fmt: skip


def whole_tree():
    """Every dtype in every shape, of random bits where all bits are numbers."""
    random = np.random.default_rng(1)
    return {
        f"{np.dtype(dtype).name} {shape}": random.integers(0, 2, shape).astype(dtype)
        if np.dtype(dtype) == bool
        else random.integers(-8 if "u" not in str(dtype) else 0, 8, shape).astype(dtype)
        for dtype in DTYPES
        for shape in SHAPES
    }


def cuts(shape, worker_count, way):
    """Into how many pieces each axis is cut."""
    if way == "whole" or not shape:
        return (1,) * len(shape)
    if way == "rows" or len(shape) == 1:
        return (worker_count,) + (1,) * (len(shape) - 1)
    if way == "columns":
        return (1,) * (len(shape) - 1) + (worker_count,)
    rows = math.gcd(worker_count, 2)
    return (rows, worker_count // rows, *(1,) * (len(shape) - 2))


def boxes(array, worker_id, worker_count, way):
    """What a worker holds: none of it, one box, or for `whole` all of it on worker 0."""
    counts = cuts(array.shape, worker_count, way)
    grid = list(np.ndindex(*counts))
    if worker_id >= len(grid):
        return {}
    slices = []
    for length, count, place in zip(array.shape, counts, grid[worker_id], strict=True):
        start, stop = length * place // count, length * (place + 1) // count
        slices.append(slice(start, stop))
    part = array[(*slices, ...)]
    return {tuple(each.start for each in slices): part} if part.size or not array.size else {}


def sharded(tree, worker_id, worker_count, way):
    return {
        name: Shards(array.shape, array.dtype, boxes(array, worker_id, worker_count, way))
        for name, array in tree.items()
    }


def same_bits(left, right):
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


def differing(found, wanted):
    """The leaves of which a worker has got other numbers, or other boxes."""
    return [
        name
        for name, shards in wanted.items()
        if found[name].boxes.keys() != shards.boxes.keys()
        or not all(same_bits(found[name].boxes[k], shards.boxes[k]) for k in shards.boxes)
    ]


@pytest.mark.parametrize("first", range(len(WAYS)))
def test_a_checkpoint_goes_through_gangs_of_every_size(first):
    tree, bucket = whole_tree(), MemoryBucket()
    for number, worker_count in enumerate(GANGS):
        way = WAYS[(first + number) % len(WAYS)]

        def work(worker_id, number=number, worker_count=worker_count, way=way):
            wanted = sharded(tree, worker_id, worker_count, way)
            worker = Checkpointer(
                MemoryStore(bucket), worker_id, worker_count, fence=number + 1, timeout_s=20
            )
            held = wanted
            if number:
                held = worker.restore(like=wanted).tree
                assert differing(held, wanted) == []
            worker.save(10 * (number + 1), held)
            worker.close()

        together(work, range(worker_count))
        restored = restore(MemoryStore(bucket))
        assert restored.step == 10 * (number + 1)
        assert [name for name in tree if not same_bits(restored.tree[name], tree[name])] == []
