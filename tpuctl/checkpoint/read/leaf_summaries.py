"""Norm, NaN and Inf of the arrays of a step, read block by block, without an array in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tpuctl.checkpoint.arrays.array_tree import leaf_paths
from tpuctl.checkpoint.arrays.dtypes import size_bytes
from tpuctl.checkpoint.arrays.statistics import ArrayStatistics
from tpuctl.checkpoint.format.commit_schema import Commit, Part, parts_by_object
from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.checkpoint.read.block_reader import BlockReader, reader_threads
from tpuctl.store import Store

LeafStatistics = tuple[int, ArrayStatistics]
"""The number of a leaf, and what a part of it amounts to."""


@dataclass(frozen=True)
class LeafSummary:
    """A leaf as `tpuctl checkpoint describe` shows it."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    norm: float | None
    """L2, of the finite elements; None for bool."""
    nan: int
    inf: int


def describe_leaves(
    store: Store, commit: Commit, advance: Callable[[int], object] = lambda _size_bytes: None
) -> Iterator[LeafSummary]:
    """Yield a summary of each leaf, after all of them were read.

    `advance` gets the number of bytes read, by any thread. Holds a few blocks at a time. Raises
    IntegrityError when one is not what was written.
    """
    reader = BlockReader(store, commit)
    parts = parts_by_object(commit.leaves)

    def read(number: int) -> list[LeafStatistics]:
        return _read(reader, number, commit, parts[number], advance)

    sums = [ArrayStatistics(leaf.dtype) for leaf in commit.leaves]
    for found in parallel_map(read, sorted(parts), threads=reader_threads(store)):
        for number, statistics in found:
            sums[number].join(statistics)
    for path, leaf, total in zip(leaf_paths(commit.tree), commit.leaves, sums, strict=True):
        yield LeafSummary(path, leaf.dtype, leaf.shape, total.norm, total.nan, total.inf)


def _read(
    reader: BlockReader,
    number: int,
    commit: Commit,
    parts: Sequence[tuple[int, Part]],
    advance: Callable[[int], object],
) -> list[LeafStatistics]:
    """What each part of an object amounts to; they follow one another."""
    dtypes = [commit.leaves[leaf].dtype for leaf, _ in parts]
    sums = [(leaf, ArrayStatistics(dtype)) for (leaf, _), dtype in zip(parts, dtypes, strict=True)]
    ends = [
        part.start + size_bytes(dtype, part.box.size)
        for (_, part), dtype in zip(parts, dtypes, strict=True)
    ]
    first = 0
    for block in range(reader.count(number)):
        data = reader.block(number, block).data
        begins = block * commit.block_bytes
        while first < len(parts) and ends[first] <= begins:
            first += 1
        for index in range(first, len(parts)):
            start = parts[index][1].start
            if start >= begins + len(data):
                break
            sums[index][1].add(data[max(0, start - begins) : max(0, ends[index] - begins)])
        advance(len(data))
    return sums
