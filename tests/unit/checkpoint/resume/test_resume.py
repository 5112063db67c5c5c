"""From which step a run goes on: what its workers say to one another, and what they never do."""

import threading

import numpy as np
import pytest

from tpuctl.checkpoint import Checkpointer, Shards, restore
from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.manifest import decode, encode
from tpuctl.checkpoint.read.step_history import read_history
from tpuctl.checkpoint.read.step_reader import restore_newest
from tpuctl.checkpoint.resume.coordination import announce_run, take_fence
from tpuctl.errors import (
    ConflictError,
    DeadlineError,
    NoCheckpointError,
    PartialFailureError,
    PreconditionError,
    TransientError,
    UsageError,
)
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore
from unit.checkpoint.runs import Run, same, tree

ROWS = 64


@pytest.fixture
def bucket():
    """Steps 10 and 20 of two workers, each of which holds half of the rows."""
    bucket = MemoryBucket()
    run = Halves(bucket, 1)
    for step in (10, 20):
        run.save(step)
    return bucket


def rows(step):
    return np.random.default_rng(step).integers(0, 9, (ROWS, 4), np.int32)


class Halves:
    """A run of two workers; each has a store of its own."""

    def __init__(self, bucket, fence, arounds=None, timeout_s=5.0):
        self.run = Run(MemoryStore(bucket), fence, timeout_s=timeout_s)
        for worker_id, around in (arounds or {}).items():
            store = MemoryStore(bucket, around)
            self.run.workers[worker_id] = Checkpointer(
                store, worker_id, 2, fence=fence, timeout_s=timeout_s
            )

    def share(self, worker_id, step):
        half = ROWS // 2
        mine = rows(step)[worker_id * half : (worker_id + 1) * half]
        return {"rows": Shards((ROWS, 4), np.int32, {(worker_id * half, 0): mine})}

    def save(self, step):
        self.run.call(lambda worker: worker.save(step, self.share(self.number(worker), step)))
        self.run.call(lambda worker: worker.close())

    def restore(self, likes=None):
        """What each worker restores, or fails with."""

        def attempt(worker):
            like = (likes or {}).get(self.number(worker)) or self.share(self.number(worker), 0)
            try:
                return worker.restore(like=like)
            except Exception as error:  # noqa: BLE001 (the result)
                return error

        return self.run.call(attempt)

    def number(self, worker):
        return self.run.workers.index(worker)


def of_worker(bucket, step, worker_id):
    """The file of a worker."""
    prefix = f"{layout.attempt_prefix(step, 1)}shard_{worker_id}-"
    (key,) = bucket.keys(prefix)
    return key


def flip(bucket, key):
    """A bit of the last byte."""
    data = bytearray(bucket.objects[key][1])
    data[-1] ^= 1
    bucket.rot(key, bytes(data))


def rounds(bucket, fence):
    return [key.partition("/")[2] for key in bucket.keys(layout.resume_prefix(fence))]


def marks(bucket):
    return [key for key in bucket.objects if "/BAD_" in key]


def test_each_worker_reads_its_own_share_and_all_go_on_from_the_same_step(bucket):
    run = Halves(bucket, 2)
    first, second = run.restore()
    assert (first.step, second.step) == (20, 20)
    assert first.tree["rows"].boxes[(0, 0)].tolist() == rows(20)[: ROWS // 2].tolist()
    assert second.tree["rows"].boxes[(32, 0)].tolist() == rows(20)[ROWS // 2 :].tolist()
    assert rounds(bucket, 2) == ["try_0", "try_0_1"]
    rollback = decode(bucket.objects[layout.rollback_key(2)][1])
    assert rollback == {"fence": 2, "from": 20, "from_fence": 1, "schema": 2}


@pytest.mark.parametrize("damaged", [0, 1])
def test_what_one_worker_cannot_read_none_goes_on_from(bucket, damaged):
    key = of_worker(bucket, 20, damaged)
    flip(bucket, key)
    first, second = Halves(bucket, 2).restore()
    assert (first.step, second.step) == (10, 10)
    assert first.tree["rows"].boxes[(0, 0)].tolist() == rows(10)[: ROWS // 2].tolist()
    ((step, reason),) = first.skipped
    assert step == 20
    assert f"{key}: its bytes are not those that were committed" in reason
    assert [step for step, _ in second.skipped] == [20]
    (mark,) = marks(bucket)
    assert decode(bucket.objects[mark][1])["reason"] == reason
    # So that nobody, though he reads the good half only, restores it any more.
    alone = restore(MemoryStore(bucket), like=Halves(bucket, 3).share(1 - damaged, 0))
    assert alone.step == 10


def test_a_worker_that_wants_another_tree_condemns_no_step(bucket):
    likes = {1: {"rows": Shards((ROWS, 5), np.int32, {(0, 0): np.zeros((1, 5), np.int32)})}}
    first, second = Halves(bucket, 2).restore(likes)
    assert isinstance(second, UsageError)
    assert isinstance(first, PartialFailureError)
    assert "step 20 is not restored: worker 1: " in str(first)
    assert str(second) in str(first)
    assert marks(bucket) == []
    assert layout.rollback_key(2) not in bucket.objects
    assert [each.step for each in Halves(bucket, 3).restore()] == [20, 20]


def test_a_worker_that_has_lost_the_bucket_condemns_no_step(bucket):
    def lost(request, effect):
        if request.verb == "read":
            raise TransientError("the connection was lost")
        return effect()

    first, second = Halves(bucket, 2, {1: lost}).restore()
    assert isinstance(second, TransientError)
    assert "worker 1: the connection was lost" in str(first)
    assert marks(bucket) == []


def test_an_answer_that_is_damaged_condemns_no_step(bucket):
    def rotten(request, effect):
        found = effect()
        if request.verb == "get" and "/try_0_1" in request.key:
            return found[:-1]
        return found

    first, _ = Halves(bucket, 2, {0: rotten}, timeout_s=0.5).restore()
    assert isinstance(first, PartialFailureError)
    assert "RESUME_0000000000000002/try_0_1: the record is not what was written" in str(first)
    assert marks(bucket) == []


def test_a_worker_that_is_not_there_is_named(bucket):
    run = Halves(bucket, 2, timeout_s=0.05).run
    with pytest.raises(
        DeadlineError, match="worker 1 did not report within 0.05 s whether step 20 is"
    ):
        run.workers[0].restore(like=None)
    assert marks(bucket) == []
    assert layout.rollback_key(2) not in bucket.objects


def test_the_others_wait_for_worker_0_but_not_for_ever(bucket):
    run = Halves(bucket, 2, timeout_s=0.05).run
    with pytest.raises(
        DeadlineError, match="worker 0 has not decided within 0.05 s where to resume"
    ):
        run.workers[1].restore()


@pytest.mark.parametrize("worker_id", [0, 1])
def test_who_waits_hears_at_once_of_a_later_run(bucket, worker_id):
    def overtaken(request, effect):
        if request.key == "R" and layout.run_key(7) not in bucket.objects:
            announce_run(MemoryStore(bucket), 7)
        return effect()

    run = Halves(bucket, 2, {worker_id: overtaken}).run
    with pytest.raises(
        PreconditionError, match="the run with fence 2 is superseded by that with 7"
    ):
        run.workers[worker_id].restore()
    assert layout.rollback_key(2) not in bucket.objects


def test_a_fence_is_used_once(bucket):
    Halves(bucket, 2).restore()
    again = Halves(bucket, 2)
    first, second = again.restore()
    assert isinstance(first, ConflictError)
    assert isinstance(second, ConflictError)


def test_one_worker_has_nobody_to_ask(bucket):
    with Checkpointer(MemoryStore(bucket), 0, 1, fence=2) as alone:
        assert alone.restore().tree["rows"].tolist() == rows(20).tolist()
    assert rounds(bucket, 2) == []


def test_runs_that_begin_at_once_take_different_fences(bucket):
    def rival(request, effect):
        if request.verb == "put" and request.number < 4:
            announce_run(MemoryStore(bucket), int(request.key.removeprefix("RUN_")))
        return effect()

    assert take_fence(MemoryStore(bucket, rival)) == 3
    assert take_fence(MemoryStore(MemoryBucket())) == 1


def test_after_the_last_fence_there_is_none(bucket):
    announce_run(MemoryStore(bucket), layout.LAST_FENCE)
    with pytest.raises(PreconditionError, match="fence 9999999999999999 wrote: the last one"):
        take_fence(MemoryStore(bucket))


def deleting_step_20(bucket):
    """Before the first read of an array, somebody cleans the step away."""
    deleted = threading.Event()

    def cleaned(request, effect):
        if request.verb == "read" and not deleted.is_set():
            deleted.set()
            for key in (layout.commit_key(20), *bucket.keys(layout.attempt_prefix(20, 1))):
                MemoryStore(bucket).delete(key)
        return effect()

    return cleaned


def test_a_step_that_is_deleted_while_it_is_read_is_not_damaged(bucket):
    """The next look finds those that were saved meanwhile."""
    found = restore_newest(MemoryStore(bucket, deleting_step_20(bucket)))
    assert (found.step, found.skipped) == (10, ())
    assert marks(bucket) == []


def test_a_step_that_is_deleted_under_a_run_is_proposed_no_more(bucket):
    first, second = Halves(bucket, 2, {1: deleting_step_20(bucket)}).restore()
    assert (first.step, first.skipped, second.step) == (10, (), 10)
    assert marks(bucket) == []
    assert rounds(bucket, 2) == ["try_0", "try_0_1", "try_1", "try_1_1"]


def test_a_step_that_is_replaced_while_it_is_listed_is_not_damaged(bucket):
    """The listing has the COMMIT of now and not its files: they came when those were listed."""
    listed = []

    def torn(request, effect):
        found = effect()
        if request.verb == "list" and not listed:
            listed.append(request)
            return [entry for entry in found if entry.key != of_worker(bucket, 20, 1)]
        return found

    found = restore_newest(MemoryStore(bucket, torn))
    assert (found.step, found.skipped) == (20, ())


def damage_rollback(bucket, fence):
    bucket.rot(layout.rollback_key(fence), b"{}")


def test_a_damaged_rollback_is_made_good_by_any_commit_of_its_run(bucket):
    damage_rollback(bucket, 1)
    assert [each.step for each in Halves(bucket, 2).restore()] == [20, 20]


def lost_track(bucket):
    """A run went on from some step, saved nothing, and its ROLLBACK is damaged."""
    Halves(bucket, 2).restore()
    damage_rollback(bucket, 2)
    return MemoryStore(bucket)


def test_nothing_is_restored_when_nobody_knows_what_was_abandoned(bucket):
    store = lost_track(bucket)
    with pytest.raises(
        NoCheckpointError, match="from which step the run with fence 2 went"
    ) as error:
        restore(store)
    assert error.value.hint == "restore one by its number: 10, 20"
    assert read_history(store).latest() is None


def test_a_step_that_is_named_is_restored_all_the_same_and_ends_the_doubt(bucket):
    store = lost_track(bucket)
    assert restore(store, 10).tree["rows"].tolist() == rows(10).tolist()
    with Checkpointer(store, 0, 1, fence=3) as alone:
        assert alone.restore(10).step == 10
    assert restore(store).step == 10
    assert [step.state for step in read_history(store).steps] == ["COMPLETE", "ROLLED_BACK"]


def test_a_run_that_begins_a_new_line_is_not_hindered_by_doubt(bucket):
    store = lost_track(bucket)
    with Checkpointer(store, 0, 1, fence=3) as alone:
        alone.save(5, {"rows": rows(5)})
    assert restore(store).step == 5


def test_a_new_line_that_saved_nothing_blocks_no_run(bucket):
    nothing = {"fence": 2, "from": -1, "from_fence": -1}
    MemoryStore(bucket).put_if_absent(layout.rollback_key(2), encode(nothing))
    assert Halves(bucket, 3).restore() == [None, None]


def test_a_step_asked_for_is_agreed_on_like_any_other(tmp_path):
    Run(tmp_path, 1).save(10, 20, 30)
    restored = Run(tmp_path, 2).restore(20)
    assert (restored.step, same(restored.tree, tree(20))) == (20, True)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (15, "there is no step 15 under memory"),
        (20, "step 20 under memory is ROLLED_BACK: a later run went on from an earlier step"),
        (25, "step 25 under memory is PARTIAL: there is no COMMIT"),
    ],
)
def test_why_a_step_that_was_asked_for_is_not_restored(bucket, step, reason):
    store = MemoryStore(bucket)
    with Checkpointer(store, 0, 1, fence=2) as alone:
        alone.restore(10)
    store.put_if_absent(layout.done_key(25, 2, 0), b"")
    with pytest.raises(NoCheckpointError) as error:
        restore(store, step)
    assert str(error.value) == reason


def test_who_did_not_hear_that_rollback_was_written_may_try_again(bucket):
    heard = []

    def lost(request, effect):
        found = effect()
        if request.verb == "put" and request.key == layout.rollback_key(2) and not heard:
            heard.append(request)
            raise TransientError("the answer was lost")
        return found

    with Checkpointer(MemoryStore(bucket, lost), 0, 1, fence=2) as alone:
        with pytest.raises(TransientError):
            alone.restore()
        assert alone.restore().step == 20


def test_a_part_of_the_tree_is_restored_from_the_bytes_that_it_takes(tmp_path, caplog):
    saved = {"model": {"w": np.arange(2.0)}, "optimizer": {"m": np.ones(9), "v": np.ones(9)}}
    with Checkpointer(str(tmp_path), 0, 1, fence=1) as checkpointer:
        checkpointer.save(1, saved, wait=True)
    like = {"model": {"w": np.empty(2)}}
    alone = restore(str(tmp_path), like=like)
    assert same(alone.tree, {"model": {"w": np.arange(2.0)}})
    assert alone.left_out == ("optimizer/m", "optimizer/v")
    with caplog.at_level("WARNING"):
        run = Checkpointer(str(tmp_path), 0, 1, fence=2).restore(like=like)
    assert same(run.tree, alone.tree)
    assert [each.getMessage() for each in caplog.records] == [
        "checkpoint of step 1 has optimizer/m and 1 more, which `like` does not name: not restored"
    ]
