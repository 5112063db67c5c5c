"""A tree at one moment: the worker's boxes, planned into files, in memory that stays as it is."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tpuctl.checkpoint.arrays.array_tree import Structure
from tpuctl.checkpoint.arrays.boxes import Box
from tpuctl.checkpoint.arrays.dtypes import DTYPES, Array, raw_dtype, size_bytes, write_into
from tpuctl.checkpoint.arrays.leaves import LeafValue, cut
from tpuctl.checkpoint.format import shard_file
from tpuctl.checkpoint.format.commit_schema import FILE_BYTES, Leaf
from tpuctl.checkpoint.format.shard_file import ShardTensor, tensor_name
from tpuctl.checkpoint.parallel import BACKGROUND, lower_priority, parallel_map

Bytes = NDArray[np.uint8]
_ALIGNMENT = 64
_PAGE_BYTES = 4096
_TOUCHED_BYTES = 4 * 1024 * 1024
"""So much is taken before the thread looks whether a save wants the memory."""
_TOGETHER_BYTES = 256 * 1024 * 1024
_COPIERS = min(4, os.cpu_count() or 1)
"""One processor alone does not make use of the memory's speed, least of all where it is new."""


@dataclass(frozen=True)
class LeafPiece:
    """A box of a leaf: its number, its tensor in a file; its elements, or bytes as a file's."""

    leaf: int
    tensor: ShardTensor
    array: Array


class SnapshotFile:
    """The tensors of one file, in order."""

    def __init__(self, pieces: Iterable[LeafPiece]) -> None:
        """Put wide elements first, as safetensors does: then every tensor is aligned."""
        self.stored = sorted(pieces, key=lambda stored: -DTYPES[stored.tensor.dtype].bits)

    def header(self, metadata: Mapping[str, str]) -> bytes:
        """The header of the file; made beside the program, not while it waits."""
        return shard_file.header([stored.tensor for stored in self.stored], metadata)


@dataclass(frozen=True)
class Snapshot:
    """A step at the moment of `save`: the worker's own files, and a description of the rest."""

    step: int
    structure: Structure
    leaves: tuple[Leaf, ...]
    """Without parts: those come from the workers' done records."""
    files: Sequence[SnapshotFile]
    called_s: float
    """When `save` was called, by time.monotonic."""
    blocked_ms: int | None
    """For how long it kept the program waiting; None while it still does."""


class CopyBuffers:
    """Memory for copies, kept from one save to the next: new pages are costly."""

    def __init__(self) -> None:
        """Take no memory yet."""
        self._chunks: list[Bytes] = []
        self._warming: threading.Thread | None = None
        self._is_wanted = False

    def warm(self, size_bytes: int) -> None:
        """Take the pages of so many bytes in a thread beside the program, until a save wants them.

        The first save then waits for a copy alone: a page that is written to for the first time
        takes as long as many copies of it. Memory that is in use stays as it is.
        """
        if self._chunks or self._is_wanted:
            return
        thread = threading.Thread(
            target=self._touch, args=(size_bytes,), name="checkpoint-warm", daemon=True
        )
        with contextlib.suppress(RuntimeError):  # the program ends, and will not save
            thread.start()
            self._warming = thread

    def stop_warming(self) -> None:
        """Return when no thread takes pages any more: a few milliseconds."""
        self._is_wanted = True
        if self._warming is not None:
            self._warming.join()
            self._warming = None

    def _touch(self, size_bytes: int) -> None:
        lower_priority(BACKGROUND)
        for first in range(0, size_bytes, FILE_BYTES):
            chunk = self.chunk(first // FILE_BYTES)[: size_bytes - first]
            for start in range(0, chunk.size, _TOUCHED_BYTES):
                if self._is_wanted:
                    return
                chunk[start : start + _TOUCHED_BYTES : _PAGE_BYTES] = 0

    def chunk(self, index: int) -> Bytes:
        """Memory for file `index`; only pages that are written to are taken."""
        if index == len(self._chunks):
            self._chunks.append(np.empty(FILE_BYTES, np.uint8))
        return self._chunks[index]

    def keep(self, count: int) -> None:
        """Give back all chunks but the first `count`."""
        del self._chunks[count:]


def share_bytes(leaves: Sequence[LeafValue], worker_count: int) -> int:
    """About how many bytes each worker stores of these leaves."""
    total = sum(size_bytes(leaf.dtype, math.prod(leaf.shape)) for leaf in leaves)
    return -(-total // worker_count)


def pieces(
    leaves: Sequence[LeafValue], paths: Sequence[str], worker_id: int, worker_count: int
) -> Iterator[LeafPiece]:
    """Yield what this worker stores, no piece larger than a file.

    A leaf is asked for its boxes only when it is its turn.
    """
    for number, (leaf, path) in enumerate(zip(leaves, paths, strict=True)):
        for box, array in leaf.own(worker_id, worker_count):
            for part in split_to_file_size(box, leaf.dtype):
                tensor = ShardTensor(tensor_name(path, leaf.shape, part), leaf.dtype, part)
                yield LeafPiece(number, tensor, cut(array, box, part))


def split_to_file_size(box: Box, dtype: str) -> Iterator[Box]:
    """Yield boxes that together are `box`, each of which fits into a file."""
    size = size_bytes(dtype, box.size)
    if size <= FILE_BYTES:
        yield box
        return
    for part in box.rows(-(-size // FILE_BYTES)):
        yield from split_to_file_size(part, dtype)


def _place_in_files(
    found: Iterable[LeafPiece], alignment: int
) -> Iterator[tuple[int, int, LeafPiece]]:
    """Yield each piece with the number of its file and its first byte among the file's data."""
    number, end = -1, FILE_BYTES
    for piece in found:
        start = -(-end // alignment) * alignment
        if start + piece.tensor.size_bytes > FILE_BYTES or number < 0:
            number, start = number + 1, 0
        end = start + piece.tensor.size_bytes
        yield number, start, piece


def copy_pieces(found: Iterable[LeafPiece], memory: CopyBuffers) -> list[SnapshotFile]:
    """Copy the pieces into files, once; some at a time, so that few wait to be copied."""
    memory.stop_warming()
    files: dict[int, list[LeafPiece]] = defaultdict(list)
    waiting: list[tuple[Bytes, LeafPiece]] = []
    left = _TOGETHER_BYTES
    for number, start, piece in _place_in_files(found, _ALIGNMENT):
        data = memory.chunk(number)[start : start + piece.tensor.size_bytes]
        waiting.append((data, piece))
        files[number].append(replace(piece, array=data))
        left -= data.nbytes
        if left <= 0:
            _copy(waiting)
            waiting, left = [], _TOGETHER_BYTES
    _copy(waiting)
    memory.keep(len(files))
    return list(map(SnapshotFile, files.values()))


def _copy(waiting: Sequence[tuple[Bytes, LeafPiece]]) -> None:
    def copy(task: tuple[Bytes, LeafPiece]) -> None:
        data, piece = task
        write_into(data, piece.tensor.dtype, piece.array)

    parallel_map(copy, waiting, threads=_COPIERS)


def view_pieces(found: Iterable[LeafPiece]) -> list[SnapshotFile]:
    """Put the pieces into files without a copy: valid while the program leaves its arrays alone."""
    files: dict[int, list[LeafPiece]] = defaultdict(list)
    for number, _, piece in _place_in_files(found, 1):
        files[number].append(replace(piece, array=_bytes_of(piece)))
    return list(map(SnapshotFile, files.values()))


def _bytes_of(piece: LeafPiece) -> Bytes:
    array, dtype = piece.array, piece.tensor.dtype
    if array.flags.c_contiguous and array.dtype == raw_dtype(dtype) and DTYPES[dtype].bits >= 8:
        return array.reshape(-1).view(np.uint8)
    data = np.empty(piece.tensor.size_bytes, np.uint8)
    write_into(data, dtype, array)
    return data
