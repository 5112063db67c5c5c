"""Norm, NaN and Inf of the arrays of a step, read block by block, without an array in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tpuctl.checkpoint.arrays.array_tree import leaf_paths
from tpuctl.checkpoint.arrays.dtypes import size_bytes
from tpuctl.checkpoint.arrays.statistics import ArrayStatistics
from tpuctl.checkpoint.format.commit_schema import Commit, Leaf, Part
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

    `advance` is told how many bytes were read, by any thread. Holds a few blocks at a time. Raises
    IntegrityError when one is not what was written.
    """
    reader = BlockReader(store, commit)
    parts = _by_object(commit.leaves)

    def read(number: int) -> list[LeafStatistics]:
        return _read(reader, number, commit.block_bytes, parts[number], advance)

    sums = [ArrayStatistics(leaf.dtype) for leaf in commit.leaves]
    for found in parallel_map(read, sorted(parts), threads=reader_threads(store)):
        for number, statistics in found:
            sums[number].join(statistics)
    for path, leaf, total in zip(leaf_paths(commit.tree), commit.leaves, sums, strict=True):
        yield LeafSummary(path, leaf.dtype, leaf.shape, total.norm, total.nan, total.inf)


@dataclass(frozen=True)
class _PlacedPart:
    """A part in its object."""

    leaf: int
    dtype: str
    start: int
    end: int


def _by_object(leaves: Sequence[Leaf]) -> dict[int, list[_PlacedPart]]:
    placed: dict[int, list[_PlacedPart]] = defaultdict(list)
    for number, leaf in enumerate(leaves):
        for part in leaf.parts:
            placed[part.object].append(
                _PlacedPart(number, leaf.dtype, part.start, _end(leaf, part))
            )
    for parts in placed.values():
        parts.sort(key=lambda each: each.start)
    return placed


def _end(leaf: Leaf, part: Part) -> int:
    return part.start + size_bytes(leaf.dtype, part.box.size)


def _read(
    reader: BlockReader,
    number: int,
    block_bytes: int,
    parts: Sequence[_PlacedPart],
    advance: Callable[[int], object],
) -> list[LeafStatistics]:
    """What each part of an object amounts to; they follow one another."""
    sums = [(part.leaf, ArrayStatistics(part.dtype)) for part in parts]
    first = 0
    for block in range(reader.count(number)):
        data = reader.block(number, block).data
        begins = block * block_bytes
        while first < len(parts) and parts[first].end <= begins:
            first += 1
        for part, (_, statistics) in zip(parts[first:], sums[first:], strict=True):
            if part.start >= begins + len(data):
                break
            statistics.add(data[max(0, part.start - begins) : max(0, part.end - begins)])
        advance(len(data))
    return sums
