"""Every byte of a step, and what its files say of themselves."""

import base64
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.checkpoint import Checkpointer
from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.commit_schema import Commit
from tpuctl.checkpoint.format.manifest import decode_commit, encode_commit
from tpuctl.checkpoint.read.step_history import read_history
from tpuctl.checkpoint.read.verification import verify_step
from tpuctl.errors import IntegrityError, NoCheckpointError
from tpuctl.store import Buffers
from tpuctl.store.entry import crc32c
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore

SHARD = layout.shard_key(1, 1, 0, 1, 0)
COMMIT = layout.commit_key(1)
TREE = {"w": np.arange(6, dtype=np.float32), "empty": np.zeros((0, 2)), "flag": np.bool_(1)}


@pytest.fixture(scope="module")
def bucket():
    bucket = MemoryBucket()
    with Checkpointer(MemoryStore(bucket), 0, 1, fence=1) as alone:
        alone.save(1, TREE)
    return bucket


@pytest.fixture
def own(bucket):
    """A bucket of the test's own."""
    return MemoryBucket.after(bucket.changes)


def verify(bucket, **options):
    store = MemoryStore(bucket)
    (step,) = read_history(store).steps
    verify_step(store, step, **options)


def test_a_good_step_is_good_and_all_of_it_was_read(bucket):
    read = []
    verify(bucket, advance=read.append)
    assert sum(read) == len(bucket.objects[SHARD][1])


@given(st.integers(0, 10_000))
def test_any_flipped_bit_of_a_file_is_found(bucket, bit):
    spoilt = MemoryBucket.after(bucket.changes)
    data = bytearray(spoilt.objects[SHARD][1])
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    spoilt.rot(SHARD, bytes(data))
    with pytest.raises(IntegrityError, match=f"^{SHARD}: its bytes are not those that were commit"):
        verify(spoilt)


def rewrite(bucket, data):
    """A file of other bytes, committed as it is: no checksum differs, only what it says."""
    store = MemoryStore(bucket)
    entry = store.put_if_generation(SHARD, data, bucket.objects[SHARD][0].generation)
    commit: Commit = decode_commit(bucket.objects[COMMIT][1])
    source = Buffers([memoryview(data)], commit.block_bytes)
    blocks = b"".join(value.to_bytes(4, "big") for value in source.block_values)
    (stored,) = commit.objects
    other = replace(
        stored,
        size_bytes=len(data),
        generation=entry.generation,
        crc32c=entry.crc32c,
        blocks=base64.b64encode(blocks).decode(),
    )
    committed = bucket.objects[COMMIT][0].generation
    store.put_if_generation(COMMIT, encode_commit(replace(commit, objects=(other,))), committed)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b'"w"', b'"v"'),
        lambda data: data.replace(b"F32", b"I32"),
        lambda data: data.replace(b"[6]", b"[7]"),
        lambda data: data + b"more",
        lambda data: bytes([data[0] ^ 128]) + data[1:],
        lambda data: data.replace(b"{", b"[", 1),
    ],
)
def test_a_file_that_says_otherwise_than_commit_is_found(own, change):
    data = own.objects[SHARD][1]
    assert change(data) != data
    rewrite(own, change(data))
    with pytest.raises(IntegrityError, match=f"^{SHARD}: |the header of the file"):
        verify(own)


def test_a_commit_whose_checksums_differ_from_one_another_is_found(own):
    commit = decode_commit(own.objects[COMMIT][1])
    (stored,) = commit.objects
    other = replace(stored, crc32c=crc32c(b"other"))
    generation = own.objects[COMMIT][0].generation
    data = encode_commit(replace(commit, objects=(other,)))
    MemoryStore(own).put_if_generation(COMMIT, data, generation)
    entry, body = own.objects[SHARD]
    own.objects[SHARD] = replace(entry, crc32c=other.crc32c), body
    with pytest.raises(
        IntegrityError, match="the crc32c of its blocks differs from that of the whole file"
    ):
        verify(own)


def test_a_step_with_an_object_gone_is_corrupt(own):
    del own.objects[SHARD]
    with pytest.raises(IntegrityError, match=f"^step 1: {SHARD}: missing$"):
        verify(own)


def test_a_step_that_was_never_complete_is_none(own):
    del own.objects[COMMIT]
    with pytest.raises(NoCheckpointError, match="step 1 under memory is PARTIAL"):
        verify(own)
