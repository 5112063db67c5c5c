"""Whether a step is what was written: every byte of every object, and the headers of the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tpuctl.checkpoint.arrays.array_tree import leaf_paths
from tpuctl.checkpoint.format import shard_file
from tpuctl.checkpoint.format.commit_schema import Commit, Part, parts_by_object
from tpuctl.checkpoint.format.shard_file import ShardTensor
from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.checkpoint.read.block_reader import BlockReader, reader_threads
from tpuctl.checkpoint.read.ranges import Bytes
from tpuctl.checkpoint.read.step_history import CheckpointStep, read_manifest
from tpuctl.errors import IntegrityError, NoCheckpointError, NotFoundError
from tpuctl.store import Store

PlacedTensor = tuple[int, ShardTensor]
"""A tensor, and the byte of its object at which it begins."""


def verify_step(
    store: Store, step: CheckpointStep, advance: Callable[[int], object] = lambda _size_bytes: None
) -> None:
    """Read and check all of a step; `advance` gets the bytes of each block, by any thread.

    Raises IntegrityError with the object that is not as it was committed, NoCheckpointError when
    the step was never complete.
    """
    if step.committed is None:
        raise NoCheckpointError(f"step {step.step} under {store.url} is {step.state}")
    if step.commit is None or step.defect:
        raise IntegrityError(f"step {step.step}: {step.defect}")
    try:
        commit = read_manifest(store, step)
    except NotFoundError as error:
        raise IntegrityError(f"step {step.step}: COMMIT is missing, or replaced") from error
    reader = BlockReader(store, commit)
    placed = _tensors(commit)

    def read(place: tuple[int, int]) -> None:
        number, block = place
        data = reader.block(number, block)
        advance(data.size)
        if block == 0:
            _check_header(commit, reader, number, data, placed.get(number, ()))

    numbers = range(len(commit.objects))
    for number in numbers:
        _check_sum(commit, reader, number)
    every = [(number, block) for number in numbers for block in range(reader.count(number))]
    parallel_map(read, every, threads=reader_threads(store))


def _tensors(commit: Commit) -> Mapping[int, list[PlacedTensor]]:
    """What COMMIT says is in each object, in the order of its bytes."""
    leaves = list(zip(leaf_paths(commit.tree), commit.leaves, strict=True))

    def placed(number: int, part: Part) -> PlacedTensor:
        path, leaf = leaves[number]
        name = shard_file.tensor_name(path, leaf.shape, part.box)
        return part.start, ShardTensor(name, leaf.dtype, part.box)

    return {
        place: [placed(number, part) for number, part in parts]
        for place, parts in parts_by_object(commit.leaves).items()
    }


def _check_sum(commit: Commit, reader: BlockReader, number: int) -> None:
    stored = commit.objects[number]
    if stored.size_bytes < shard_file.LENGTH_BYTES:
        raise IntegrityError(f"{stored.path}: not a safetensors file")
    if reader.crc32c(number) != stored.crc32c:
        raise IntegrityError(
            f"{stored.path}: the crc32c of its blocks differs from that of the whole file"
        )


def _check_header(
    commit: Commit, reader: BlockReader, number: int, first: Bytes, placed: Sequence[PlacedTensor]
) -> None:
    """Compare what the file says with what COMMIT says; `first` is the first block of the file."""
    stored = commit.objects[number]
    size_bytes = shard_file.header_size_bytes(first[: shard_file.LENGTH_BYTES].tobytes())
    if size_bytes > stored.size_bytes:
        raise IntegrityError(f"{stored.path}: not a safetensors file: its header has no end")
    is_there = size_bytes <= first.size
    header = first[:size_bytes].tobytes() if is_there else reader.range(number, 0, size_bytes)
    try:
        described = shard_file.read_header(header)
    except IntegrityError as error:
        raise IntegrityError(f"{stored.path}: {error}") from error
    if described.pop(shard_file.METADATA, None) != commit.identity(stored):
        raise IntegrityError(f"{stored.path}: it is a file of another save, step, run or worker")
    expected = shard_file.description([tensor for _, tensor in placed])
    starts = [expected[tensor.name]["data_offsets"][0] for _, tensor in placed]
    end = max((each["data_offsets"][1] for each in expected.values()), default=0)
    if (
        described != expected
        or [start for start, _ in placed] != [size_bytes + start for start in starts]
        or size_bytes + end != stored.size_bytes
    ):
        raise IntegrityError(f"{stored.path}: its header differs from COMMIT")
