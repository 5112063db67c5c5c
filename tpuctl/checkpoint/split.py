"""Which part of each leaf a worker holds: boxes of the global array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tpuctl.checkpoint.tree import Array


@dataclass(frozen=True)
class Part:
    """A box of a leaf: where it begins along each axis, how far it goes, whose shard has it."""

    shard: int
    offset: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def box(self) -> tuple[slice, ...]:
        """The index of the box in the global array."""
        return tuple(
            slice(start, start + length)
            for start, length in zip(self.offset, self.shape, strict=True)
        )


@dataclass(frozen=True)
class Leaf:
    """An array of the tree as a whole, and the parts it is stored in."""

    dtype: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]


def tensor_name(index: int) -> str:
    """What a leaf's part is called in a shard."""
    return f"leaf_{index}"


def split(leaves: Sequence[Array], worker_count: int) -> tuple[Leaf, ...]:
    """Rows by contiguous ranges over the workers; what has too few rows goes whole to one."""
    return tuple(
        Leaf(leaf.dtype.name, leaf.shape, tuple(_parts(index, leaf.shape, worker_count)))
        for index, leaf in enumerate(leaves)
    )


def own_parts(leaves: Sequence[Array], worker_id: int, worker_count: int) -> dict[str, Array]:
    """Copies of what a worker stores, little-endian and contiguous."""
    return {
        tensor_name(index): np.array(leaf[part.box], leaf.dtype.newbyteorder("<"), order="C")
        for index, (leaf, plan) in enumerate(zip(leaves, split(leaves, worker_count), strict=True))
        for part in plan.parts
        if part.shard == worker_id
    }


def _parts(index: int, shape: tuple[int, ...], worker_count: int) -> Iterator[Part]:
    if not shape or shape[0] < worker_count:
        yield Part(index % worker_count, (0,) * len(shape), shape)
        return
    start = 0
    for worker_id in range(worker_count):
        rows = shape[0] // worker_count + (worker_id < shape[0] % worker_count)
        yield Part(worker_id, (start, *(0,) * (len(shape) - 1)), (rows, *shape[1:]))
        start += rows
