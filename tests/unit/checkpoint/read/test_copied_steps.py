"""A step is known by its bytes: copied, moved or restored from a backup it is as good as before."""

import base64
import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tpuctl.checkpoint import Checkpointer, Shards, list_steps, restore
from tpuctl.checkpoint.format import layout, shard_file
from tpuctl.checkpoint.format.commit_schema import document
from tpuctl.checkpoint.format.manifest import decode_commit, encode
from tpuctl.checkpoint.read.step_history import note_verified, read_history
from tpuctl.checkpoint.read.verification import verify_step
from tpuctl.checkpoint.write.snapshot import SnapshotFile
from tpuctl.errors import IntegrityError, NoCheckpointError, UsageError
from tpuctl.store import crc32c, open_store
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore
from unit.checkpoint.runs import Run, same, states, tree

SHARD = "step_000000000020/a_0000000000000001/shard_1-of_2_0.safetensors"
COMMIT = "step_000000000020/COMMIT"
ANOTHER_SAVE = "it is a file of another save, step, run or worker"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Steps 10 and 20 of two workers, not to be changed."""
    directory = tmp_path_factory.mktemp("original") / "steps"
    Run(directory, 1).save(10, 20)
    return directory


@pytest.fixture
def copied(original, tmp_path):
    """What `cp -r` makes of it: the same bytes, other times."""
    return copy(original, tmp_path / "copied")


def copy(source: Path, target: Path) -> Path:
    return shutil.copytree(source, target, copy_function=shutil.copy, dirs_exist_ok=True)


def copy_bucket(bucket: MemoryBucket) -> MemoryBucket:
    """All objects, put into another bucket, where they have other generations."""
    other = MemoryBucket(last_generation=bucket.last_generation)
    for key in list(bucket.objects):
        MemoryStore(other).put_if_absent(key, bucket.objects[key][1])
    return other


def verify(store, number: int) -> None:
    step = read_history(store).find(number)
    verify_step(store, step)
    note_verified(store, step)


def test_a_copy_is_unverified_and_restored_as_it_is(copied):
    assert states(copied) == [(10, "UNVERIFIED"), (20, "UNVERIFIED")]
    assert list_steps(str(copied))[1].reason == "copied: nobody has read its bytes here"
    found = restore(str(copied))
    assert (found.step, found.is_copy, same(found.tree, tree(20))) == (20, True, True)
    assert states(copied) == [(10, "UNVERIFIED"), (20, "UNVERIFIED")], "who looks writes nothing"


def test_a_run_that_has_read_all_of_a_copy_makes_it_good_and_goes_on_from_it(copied, caplog):
    run = Run(copied, 2)
    with caplog.at_level("WARNING"):
        assert same(run.restore().tree, tree(20))
    assert "checkpoint of step 20 is a copy: what was read of it is what was saved" in caplog.text
    assert states(copied) == [(10, "UNVERIFIED"), (20, "COMPLETE")]
    run.save(30)
    assert states(copied) == [(10, "UNVERIFIED"), (20, "COMPLETE"), (30, "COMPLETE")]
    later = Run(copied, 3)
    assert same(later.restore(20).tree, tree(20)), "the other workers read what was verified, too"


def test_who_verifies_a_copy_makes_it_good_until_it_is_copied_again(copied, original):
    store = open_store(str(copied))
    verify(store, 20)
    verify(store, 20)
    assert states(copied) == [(10, "UNVERIFIED"), (20, "COMPLETE")]
    copy(original, copied)
    assert states(copied) == [(10, "UNVERIFIED"), (20, "UNVERIFIED")]
    verify(store, 20)
    assert states(copied) == [(10, "UNVERIFIED"), (20, "COMPLETE")]


def test_one_file_that_is_copied_again_is_to_be_read_again(copied, original):
    store = open_store(str(copied))
    verify(store, 20)
    shutil.copy(original / SHARD, copied / SHARD)
    assert states(copied)[1] == (20, "UNVERIFIED")
    verify(store, 20)
    assert states(copied)[1] == (20, "COMPLETE")


def test_the_record_of_another_commit_is_deleted_with_the_next_save(copied, original):
    verify(open_store(str(copied)), 20)
    (stale,) = copied.glob("step_*20/VERIFIED_*")
    copy(original, copied)
    run = Run(copied, 2)
    run.restore()
    run.save(30)
    assert not stale.exists()


def test_steps_that_were_not_verified_count_for_nothing_when_others_are_deleted(copied):
    Run(copied, 2, keep=2, worker_count=1).save(30)
    assert states(copied) == [(10, "ROLLED_BACK"), (20, "ROLLED_BACK"), (30, "COMPLETE")]
    Run(copied, 3, keep=1, worker_count=1).save(40)
    assert [step for step, _ in states(copied)] == [40]


def test_a_run_that_goes_on_from_a_part_of_a_copy_does_not_count_it_as_good(copied):
    with Checkpointer(str(copied), 0, 1, fence=2, keep=2) as checkpointer:
        assert checkpointer.restore(like={"step": tree(20)["step"]}).step == 20
        checkpointer.save(30, tree(30), wait=True)
    assert states(copied) == [(10, "UNVERIFIED"), (20, "UNVERIFIED"), (30, "COMPLETE")]


def test_a_bucket_that_was_moved_is_good_by_its_checksums():
    bucket = MemoryBucket()
    Run(MemoryStore(bucket), 1).save(20)
    moved = MemoryStore(copy_bucket(bucket))
    assert states(moved) == [(20, "UNVERIFIED")]
    assert same(Run(moved, 2).restore().tree, tree(20))
    assert states(moved) == [(20, "COMPLETE")]


def test_a_copy_without_its_commit_is_no_step_and_one_that_lacks_a_file_is_corrupt(copied):
    (copied / COMMIT).unlink()
    (copied / SHARD.replace("20", "10", 1)).unlink()
    assert states(copied) == [(10, "CORRUPT"), (20, "PARTIAL")]


def test_a_copy_that_is_still_on_its_way_is_not_condemned(original, tmp_path):
    """Most tools copy COMMIT first: its name comes before those of the files."""
    there = tmp_path / "there"
    (there / COMMIT).parent.mkdir(parents=True)
    shutil.copy(original / COMMIT, there / COMMIT)
    with pytest.raises(NoCheckpointError, match="missing"):
        Run(there, 2, worker_count=1).restore()  # a second worker would wait for the first's word
    copy(original / COMMIT.split("/")[0], there / COMMIT.split("/")[0])
    whole = (there / SHARD).read_bytes()
    (there / SHARD).write_bytes(whole[:100])
    with pytest.raises(NoCheckpointError, match="its size"):
        Run(there, 3, worker_count=1).restore()
    (there / SHARD).write_bytes(whole)
    assert states(there) == [(20, "UNVERIFIED")]
    assert same(Run(there, 4).restore().tree, tree(20))


def test_a_flipped_bit_in_a_copy_is_found_by_who_reads_it(copied):
    data = bytearray((copied / SHARD).read_bytes())
    data[-1] ^= 1
    (copied / SHARD).write_bytes(data)
    assert restore(str(copied)).step == 10
    with pytest.raises(IntegrityError, match="its bytes are not those that were committed"):
        verify(open_store(str(copied)), 20)


def with_crc32c(data: bytes, wanted: str) -> bytes:
    """The same bytes but for the last four, so that the checksum is the wanted one.

    A CRC is linear: each bit of those four changes the checksum in its own way, whatever the rest.
    """
    base = data[:-4] + bytes(4)
    zero = _value(crc32c(base))
    rows = [
        _value(crc32c(data[:-4] + (1 << bit).to_bytes(4, "little"))) ^ zero for bit in range(32)
    ]
    left, found = zero ^ _value(wanted), 0
    pivots: dict[int, tuple[int, int]] = {}
    for bit, value in enumerate(rows):
        chosen = 1 << bit
        for top, (other, others) in sorted(pivots.items(), reverse=True):
            if value >> top & 1:
                value, chosen = value ^ other, chosen ^ others
        pivots[value.bit_length() - 1] = value, chosen
    for top, (value, chosen) in sorted(pivots.items(), reverse=True):
        if left >> top & 1:
            left, found = left ^ value, found ^ chosen
    return data[:-4] + found.to_bytes(4, "little")


def _value(text: str) -> int:
    return int.from_bytes(base64.b64decode(text), "big")


def exchange(bucket: MemoryBucket, key: str, data: bytes) -> None:
    """Other content of the same size and checksum, as no listing can tell."""
    entry, old = bucket.objects[key]
    forged = with_crc32c(data, entry.crc32c)
    assert (len(forged), crc32c(forged)) == (len(old), entry.crc32c)
    assert forged != old
    MemoryStore(bucket).put_if_generation(key, forged, entry.generation)


WORKER_0 = "step_000000000020/a_0000000000000001/shard_0-of_2_0.safetensors"


@pytest.mark.parametrize(
    ("source", "step"),
    [(SHARD.replace("20", "10", 1), 20), (WORKER_0, 20)],
    ids=["older", "swapped"],
)
def test_older_or_swapped_content_of_the_same_checksum_is_found_by_its_save_id(source, step):
    bucket = MemoryBucket()
    halves = {name: np.arange(40, dtype=np.float32) for name in "ab"}
    run = Run(MemoryStore(bucket), 1)
    for number in (10, 20):
        run.call(lambda worker, at=number: worker.save(at, halves, wait=True))
    exchange(bucket, SHARD, bucket.objects[source][1])
    store = MemoryStore(bucket)
    assert states(store) == [(10, "COMPLETE"), (step, "UNVERIFIED")]
    with pytest.raises(IntegrityError, match=ANOTHER_SAVE):
        verify(store, step)
    found = restore(store)
    assert (found.step, [number for number, _ in found.skipped]) == (10, [step])


def test_who_reads_a_part_of_a_copy_looks_at_the_header_too(monkeypatch):
    for module in ("part_writer", "commit_protocol"):
        monkeypatch.setattr(f"tpuctl.checkpoint.write.{module}.BLOCK_BYTES", 512)
    bucket = MemoryBucket()
    array = np.arange(1024, dtype=np.float32)
    for step in (10, 20):
        with Checkpointer(MemoryStore(bucket), 0, 1, fence=step) as alone:
            alone.save(step, {"w": array}, wait=True)
    key = layout.shard_key(20, 20, 0, 1, 0)
    older = bucket.objects[layout.shard_key(10, 10, 0, 1, 0)][1]
    entry, whole = bucket.objects[key]
    # Only the first block differs, and has the checksum of the right one.
    first = with_crc32c(older[:512], crc32c(whole[:512]))
    MemoryStore(bucket).put_if_generation(key, first + whole[512:], entry.generation)
    like = {"w": Shards((1024,), np.float32, {(1000,): np.zeros(24, np.float32)})}
    with pytest.raises(Exception, match=ANOTHER_SAVE):
        restore(MemoryStore(bucket), 20, like)


def test_the_commit_of_another_run_is_found(original, tmp_path):
    """Both runs have the same fence, step, tree and file names: only the saves differ."""
    other = tmp_path / "other"
    Run(other, 1).save(10, 20)
    shutil.copy(original / COMMIT, other / COMMIT)
    assert states(other) == [(10, "COMPLETE"), (20, "CORRUPT")], "the checksums differ"
    blind = copy(other, tmp_path / "blind")
    assert states(blind)[1] == (20, "UNVERIFIED"), "a directory knows no checksum of a copy"
    assert restore(str(blind)).step == 10


def test_two_saves_of_the_same_arrays_have_nothing_in_common_but_their_tensors(original, tmp_path):
    Run(tmp_path, 1).save(10, 20)
    one, other = ((place / SHARD).read_bytes() for place in (original, tmp_path))
    headers = [
        shard_file.read_header(each[: shard_file.header_size_bytes(each[:8])])
        for each in (one, other)
    ]
    mine, theirs = (each.pop("__metadata__") for each in headers)
    assert headers[0] == headers[1]
    assert mine.pop("save") != theirs.pop("save")
    assert mine == theirs == {
        "step": "20", "run": "1", "worker": "1", "file": "shard_1-of_2_0.safetensors"
    }  # fmt: skip
    record = document(decode_commit((original / COMMIT).read_bytes()))
    assert len(set(record["saves"])) == record["worker_count"] == 2


def test_a_step_that_was_saved_without_save_ids_is_read(tmp_path, monkeypatch):
    write = SnapshotFile.header
    monkeypatch.setattr(
        SnapshotFile, "header", lambda self, _: shard_file.header([e.tensor for e in self.stored])
    )
    Run(tmp_path, 1).save(20)
    monkeypatch.setattr(SnapshotFile, "header", write)
    record = document(decode_commit((tmp_path / COMMIT).read_bytes()))
    del record["saves"]
    (tmp_path / COMMIT).write_bytes(encode(record))
    assert states(tmp_path) == [(20, "COMPLETE")]
    verify(open_store(str(tmp_path)), 20)
    os.utime(tmp_path / SHARD, ns=(1, 1))
    assert states(tmp_path) == [(20, "UNVERIFIED")]
    assert same(restore(str(tmp_path)).tree, tree(20))


def test_a_commit_with_save_ids_that_make_no_sense_is_none(copied):
    record = document(decode_commit((copied / COMMIT).read_bytes()))
    for saves in (["ab" * 16], ["ab" * 16, "no"], ["ab" * 16, 1]):
        (copied / COMMIT).write_bytes(encode({**record, "saves": saves}))
        assert states(copied)[1] == (20, "CORRUPT")


def test_bytes_of_the_right_checksum_are_found_by_a_digest(monkeypatch):
    """With the header, block checksums and COMMIT as they were: only a digest can tell."""
    found = {}
    for digest in ("", "sha256"):
        bucket = MemoryBucket()
        with Checkpointer(MemoryStore(bucket), 0, 1, fence=1, digest=digest) as alone:
            alone.save(20, {"w": np.arange(40, dtype=np.float32)}, wait=True)
        key = layout.shard_key(20, 1, 0, 1, 0)
        data = bytearray(bucket.objects[key][1])
        data[-20] ^= 1
        exchange(bucket, key, bytes(data))
        try:
            found[digest] = restore(MemoryStore(bucket)).step
        except NoCheckpointError as error:
            found[digest] = str(error)
    assert found[""] == 20
    assert "its bytes are not those that were committed" in found["sha256"]
    monkeypatch.setenv("TPUCTL_CHECKPOINT_DIGEST", "md5")
    with pytest.raises(UsageError, match="digest is 'md5'"):
        Checkpointer(MemoryStore(bucket), 0, 1, fence=2)


def test_a_step_with_digests_is_restored_and_verified(tmp_path):
    Run(tmp_path, 1, digest="sha256").save(20)
    assert same(restore(str(tmp_path)).tree, tree(20))
    verify(open_store(str(tmp_path)), 20)
    record = document(decode_commit((tmp_path / COMMIT).read_bytes()))
    (first, *_) = record["objects"]
    data = (tmp_path / first["path"]).read_bytes()
    assert base64.b64decode(first["digests"]) == hashlib.sha256(data).digest()
    record["objects"][0]["digests"] = "AAAA"
    (tmp_path / COMMIT).write_bytes(encode(record))
    assert states(tmp_path) == [(20, "CORRUPT")]
