"""What is deleted when a step was committed, in which order, and what never is."""

import pytest

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.manifest import encode
from tpuctl.checkpoint.format.record_cache import RecordCache
from tpuctl.checkpoint.read.step_history import read_history
from tpuctl.checkpoint.write.garbage_collection import (
    collect_garbage,
    delete_planned,
    plan_deletions,
)
from tpuctl.errors import PreconditionError, TransientError
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore
from unit.checkpoint.runs import Run, tree


@pytest.fixture
def bucket():
    return MemoryBucket()


@pytest.fixture
def store(bucket):
    return MemoryStore(bucket)


def states(store):
    return [(step.step, step.state) for step in read_history(store).steps]


def lost_rollback(store, fence):
    """The record is damaged; no COMMIT of that run repeats it."""
    store.bucket.rot(layout.rollback_key(fence), b"{}")


def test_commit_goes_before_anything_that_it_names(bucket, store):
    Run(store, 1, keep=9).save(1, 2)
    steps = read_history(store).steps
    del bucket.changes[:]
    Run(store, 2, keep=1).restore()
    delete_planned(store, plan_deletions(read_history(store), 1, 2))
    gone = [change.key for change in bucket.changes if change.entry is None]
    assert gone[0] == layout.commit_key(1)
    assert {entry.key for entry in steps[0].entries} <= set(gone)


def test_a_pinned_step_stays(store):
    run = Run(store, 1, keep=1).save(1)
    store.put_if_absent(layout.pin_key(1), b"")
    run.save(2, 3)
    assert states(store) == [(1, "COMPLETE"), (3, "COMPLETE")]


def test_a_step_that_was_pinned_a_moment_ago_stays(store):
    Run(store, 1, keep=9).save(1, 2)
    planned = plan_deletions(read_history(store), 1, 1)
    assert [step.step for step in planned.steps] == [1]
    store.put_if_absent(layout.pin_key(1), b"")
    delete_planned(store, planned)
    assert states(store) == [(1, "COMPLETE"), (2, "COMPLETE")]


def test_an_abandoned_line_stays_until_the_new_one_is_as_long_as_is_kept(store):
    Run(store, 1, keep=2).save(10, 20, 30)
    run = Run(store, 2, keep=2)  # its program forgot to restore
    run.save(5)
    assert states(store) == [(5, "COMPLETE"), (20, "ROLLED_BACK"), (30, "ROLLED_BACK")]
    run.save(6)
    assert states(store) == [(5, "COMPLETE"), (6, "COMPLETE")]


def test_a_corrupt_step_stays_until_enough_newer_ones_are_there(store):
    run = Run(store, 1, keep=2).save(1, 2)
    found = read_history(store).find(2).committed
    store.put_if_absent(layout.bad_key(2, found.generation), encode({"reason": "a bit"}))
    run.save(3)
    assert states(store) == [(1, "COMPLETE"), (2, "CORRUPT"), (3, "COMPLETE")]
    run.save(4)
    assert states(store) == [(3, "COMPLETE"), (4, "COMPLETE")]
    assert not store.bucket.keys("step_000000000002/")


def test_what_a_dead_run_left_goes(store):
    dead = Run(store, 1, timeout_s=0.05).save(1)
    dead.workers[1].save(2, tree(2))
    dead.workers[1].wait()
    store.put_if_absent(layout.stop_key(1, 0), b"")
    assert store.bucket.keys("step_000000000002/")
    run = Run(store, 2)
    run.restore()
    run.save(3)
    assert not store.bucket.keys("step_000000000002/")
    left = [entry.key for entry in store.list() if not entry.key.startswith("step_")]
    assert left == [
        "RESUME_0000000000000002/try_0",
        "RESUME_0000000000000002/try_0_1",
        "ROLLBACK_0000000000000001",
        "ROLLBACK_0000000000000002",
        "RUN_0000000000000002",
    ]


def test_an_earlier_step_that_failed_goes_and_a_later_one_may_still_come(store):
    run = Run(store, 1)
    run.save(1)
    for step in (2, 4):
        key = layout.shard_key(step, 1, 0, 2, 0)
        store.put_if_absent(key, b"of a save that failed, or is under way")
    run.save(3)
    assert not store.bucket.keys("step_000000000002/")
    assert store.bucket.keys("step_000000000004/")


def test_files_that_a_commit_names_or_may_name_stay(bucket, store):
    run = Run(store, 1).save(1)
    before = set(bucket.keys("step_000000000001/"))
    bucket.rot(layout.commit_key(1), b"{}")
    run.save(2)
    assert set(bucket.keys("step_000000000001/")) == before


def test_a_second_try_of_which_the_first_left_files_is_cleaned_up(store):
    run = Run(store, 1).save(1)
    key = layout.shard_key(1, 1, 0, 2, 7)
    store.put_if_absent(key, b"of the try before")
    run.save(2)
    assert key not in store.bucket.objects
    assert states(store) == [(1, "COMPLETE"), (2, "COMPLETE")]


def test_a_mark_of_a_commit_that_was_replaced_goes(store):
    run = Run(store, 1).save(1)
    store.put_if_absent(layout.bad_key(1, 12345), encode({"reason": "it was bad"}))
    run.save(2)
    assert layout.bad_key(1, 12345) not in store.bucket.objects


def test_a_mark_of_a_commit_that_is_gone_goes(store):
    Run(store, 1).save(2)
    store.put_if_absent(layout.bad_key(1, 7), encode({"reason": "it was bad"}))
    assert [entry.key for entry in plan_deletions(read_history(store), 1, 1).leftovers] == [
        layout.bad_key(1, 7)
    ]


def test_nothing_that_is_in_doubt_goes(store):
    Run(store, 1, keep=9).save(1, 2)
    Run(store, 2, keep=9).restore()
    lost_rollback(store, 2)
    assert [step.is_doubtful for step in read_history(store).steps] == [True, True]
    assert plan_deletions(read_history(store), 1, 3).steps == ()


def test_keys_that_are_not_ours_are_never_touched(store):
    store.put_if_absent("step_000000000001/notes.txt", b"mine")
    store.put_if_absent("other/COMMIT", b"mine")
    Run(store, 1, keep=1).save(1, 2, 3)
    assert "step_000000000001/notes.txt" in store.bucket.objects
    assert "other/COMMIT" in store.bucket.objects


def test_a_superseded_run_deletes_nothing(store):
    run = Run(store, 1, keep=1).save(1)
    Run(store, 2).restore()
    with pytest.raises(PreconditionError, match="superseded"):
        collect_garbage(run.workers[0]._run, 1, 1, RecordCache())


def test_a_failure_is_a_warning_and_the_step_is_saved(bucket):
    def no_deletes(request, effect):
        if request.verb == "delete":
            raise TransientError("503")
        return effect()

    store = MemoryStore(bucket, no_deletes)
    run = Run(store, 1, keep=1, worker_count=1).save(1)
    with pytest.warns(UserWarning, match="old checkpoints were not deleted: 503"):
        run.save(2)
    assert states(store) == [(1, "COMPLETE"), (2, "COMPLETE")]
