"""A run that ends after any of its writes leaves the step before, or this one, whole."""

import random
import re

import pytest

from tpuctl.checkpoint import Checkpointer
from tpuctl.checkpoint.format.manifest import decode_commit
from tpuctl.checkpoint.read.step_reader import restore_newest
from tpuctl.checkpoint.write import snapshot
from tpuctl.errors import NoCheckpointError
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore
from unit.checkpoint.read.line_world import tree
from unit.checkpoint.runs import same

COMMIT = re.compile(r"step_\d{12}/COMMIT")


@pytest.fixture(params=[1, 2, 4], ids="{0} workers".format)
def worker_count(request):
    return request.param


class Gang:
    """The workers of one run over one bucket."""

    def __init__(self, bucket, fence, worker_count, keep=1):
        self.workers = [
            Checkpointer(MemoryStore(bucket), i, worker_count, fence=fence, keep=keep)
            for i in range(worker_count)
        ]

    def save(self, step, number=None):
        for worker in self.workers:
            worker.save(step, tree(number or step))
        for worker in self.workers:
            worker.close()


def found(bucket):
    """Which step a reader finds in it, and whether all of it is there; None for none."""
    try:
        restored = restore_newest(MemoryStore(bucket), None, None)
    except NoCheckpointError:
        return None
    assert same(restored.tree, tree(restored.step))
    return restored.step


def saved(worker_count, *steps, keep=1):
    """The changes of a run, and how many of them came before its last save."""
    bucket = MemoryBucket()
    gang = Gang(bucket, 1, worker_count, keep)
    for step in steps:
        before = len(bucket.changes)
        gang.save(step)
    return bucket.changes, before


@pytest.mark.parametrize("keep", [1, 2])
def test_after_every_prefix_of_a_save_the_step_before_or_this_one_is_whole(worker_count, keep):
    changes, before = saved(worker_count, 10, 20, 30, keep=keep)
    ends = range(before, len(changes) + 1)
    committed = next(k for k in ends if COMMIT.fullmatch(changes[k - 1].key) and k > before)
    assert [found(MemoryBucket.after(changes[:k])) for k in ends] == [
        30 if k >= committed else 20 for k in ends
    ]


def test_after_every_prefix_of_a_first_save_there_is_nothing_or_all_of_it(worker_count):
    changes, _ = saved(worker_count, 10)
    steps = [found(MemoryBucket.after(changes[:k])) for k in range(len(changes) + 1)]
    assert steps == sorted(steps, key=lambda step: step or 0)
    assert set(steps) == {None, 10}


def test_after_every_prefix_the_next_run_goes_on_and_saves_the_same_step(worker_count):
    changes, before = saved(worker_count, 10, 20)
    for k in range(before, len(changes) + 1):
        bucket = MemoryBucket.after(changes[:k])
        expected = found(bucket)
        gang = Gang(bucket, 2, 1)
        assert gang.workers[0].restore().step == expected
        gang.save(expected + 10)
        assert found(bucket) == expected + 10
        left = {key.partition("/")[0] for key in bucket.objects}
        assert {name for name in left if name.startswith("step_")} == {f"step_{expected + 10:012d}"}


def test_the_files_of_a_save_may_arrive_in_any_order_and_some_not_at_all(monkeypatch):
    monkeypatch.setattr(snapshot, "FILE_BYTES", 64)
    changes, before = saved(2, 10, 20, keep=2)
    end = next(k for k in range(before, len(changes)) if COMMIT.fullmatch(changes[k].key))
    earlier, files, last = changes[:before], changes[before:end], changes[end]
    assert len(files) >= 6
    draws = random.Random(1)
    for _ in range(60):
        some = draws.sample(files, draws.randrange(len(files) + 1))
        assert found(MemoryBucket.after([*earlier, *some])) == 10
        # A COMMIT without one of its files cannot be written; if it were, nobody would use it.
        objects = {part.path for part in decode_commit(last.data).objects}
        is_all_there = objects <= {change.key for change in some}
        assert found(MemoryBucket.after([*earlier, *some, last])) == (20 if is_all_there else 10)


def test_after_every_prefix_of_a_resume_the_same_step_is_found():
    changes, _ = saved(1, 10, 20, keep=3)
    bucket = MemoryBucket.after(changes)
    shard = next(key for key in bucket.keys("step_000000000020/a_") if "shard" in key)
    data = bucket.objects[shard][1]
    bucket.rot(shard, bytes([data[-1] ^ 1]).join([data[:-1], b""]))
    assert Gang(bucket, 2, 1).workers[0].restore().step == 10
    for k in range(len(changes), len(bucket.changes) + 1):
        cut = MemoryBucket.after(bucket.changes[:k])
        cut.rot(shard, bucket.objects[shard][1])
        assert found(cut) == 10


def test_every_step_is_made_of_as_few_changes_as_it_needs(worker_count):
    """One record for each worker, one file if it has something, COMMIT: a save in requests."""
    changes, before = saved(worker_count, 10, 20, keep=2)
    keys = [change.key for change in changes[before:]]
    files = [key for key in keys if "/shard_" in key]
    assert len(keys) == len(files) + worker_count + 1
    assert 0 < len(files) <= worker_count


class Behind(MemoryStore):
    """Its first listing is from before the last changes but those: as of who lists slowly."""

    def __init__(self, bucket, missed):
        super().__init__(bucket)
        self.missed = missed

    def list(self, prefix=""):
        missed, self.missed = self.missed, ()
        return (entry for entry in super().list(prefix) if entry.key not in missed)


def test_who_lists_while_one_step_takes_the_place_of_another_looks_again():
    changes, _ = saved(1, 10, 20)
    store = Behind(MemoryBucket.after(changes), {"step_000000000020/COMMIT"})
    assert restore_newest(store, None, None).step == 20
