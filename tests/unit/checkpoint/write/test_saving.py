"""Saving when something goes wrong on the way: tried again, refused, not answered."""

import threading
from dataclasses import replace

import pytest

from tpuctl.checkpoint import Checkpointer
from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.manifest import decode, decode_commit
from tpuctl.checkpoint.read.step_history import read_history
from tpuctl.checkpoint.read.step_reader import restore_newest
from tpuctl.checkpoint.write import commit_protocol, snapshot
from tpuctl.errors import (
    ConflictError,
    DeadlineError,
    IntegrityError,
    OutcomeUnknownError,
    PreconditionError,
    TransientError,
)
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore
from unit.checkpoint.runs import Run, same, tree


@pytest.fixture
def bucket():
    return MemoryBucket()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Nobody waits before COMMIT is looked at again."""
    monkeypatch.setattr(commit_protocol, "_PAUSES_S", (0.0, 0.0, 0.0))


def commit_of(bucket, step):
    return decode_commit(bucket.objects[layout.commit_key(step)][1])


def alone(bucket, around=lambda _request, effect: effect(), fence=1):
    return Checkpointer(MemoryStore(bucket, around), 0, 1, fence=fence)


class Once:
    """Something happens to the first put of a key that ends so."""

    def __init__(self, ending, happens):
        self.ending, self.happens, self.is_over = ending, happens, False

    def __call__(self, request, effect):
        if self.is_over or request.verb != "put" or not request.key.endswith(self.ending):
            return effect()
        self.is_over = True
        return self.happens(effect)


def lost_before(_effect):
    raise TransientError("503")


def lost_after(effect):
    effect()
    raise OutcomeUnknownError("no answer")


def test_a_second_try_writes_beside_the_first_and_takes_no_word_of_it(bucket):
    """Worker 1 was done with the first try: what it said then must not be committed now."""
    run = Run(MemoryStore(bucket), 1, timeout_s=0.1)
    run.workers[0].save(1, tree(0))
    with pytest.raises(DeadlineError):
        run.workers[0].wait()
    run.workers[1].save(1, tree(0), wait=False)
    run.workers[1].wait()
    first = set(bucket.keys("step_"))
    with pytest.raises(DeadlineError, match="worker 1 is missing"):
        run.workers[0].save(1, tree(1), wait=True)
    run.workers[1].save(1, tree(2))
    run.workers[1].wait()
    run.workers[0].save(1, tree(2), wait=False)
    with pytest.raises(DeadlineError, match="worker 1 is missing"):
        run.workers[0].wait()  # it is at its third try, worker 1 at its second
    run.workers[1].save(1, tree(2))
    run.workers[1].wait()
    assert first < set(bucket.keys("step_")), "no file of the first try was written over"
    assert layout.commit_key(1) not in bucket.objects


def test_all_workers_try_a_failed_step_again(bucket):
    run = Run(MemoryStore(bucket), 1, timeout_s=0.2)
    run.workers[0].save(1, tree(0))
    with pytest.raises(DeadlineError):
        run.workers[0].wait()
    run.workers[1].save(1, tree(0))
    run.workers[1].wait()
    run.save(1)
    assert same(restore_newest(MemoryStore(bucket)).tree, tree(1))
    assert {stored.path.rpartition("_")[2] for stored in commit_of(bucket, 1).objects} == {
        "1.safetensors"
    }


@pytest.mark.parametrize("happens", [lost_before, lost_after])
def test_a_commit_without_an_answer_is_looked_for_and_sent_again(bucket, happens):
    worker = alone(bucket, Once("COMMIT", happens))
    worker.save(1, tree(1), wait=True)
    assert worker.latest() == 1


def test_a_commit_that_is_damaged_as_soon_as_it_is_there_is_written_anew(bucket):
    def rots(effect):
        entry = effect()
        bucket.rot(entry.key, b"{}")
        return entry

    worker = alone(bucket, Once("COMMIT", rots))
    worker.save(1, tree(1), wait=True)
    assert same(restore_newest(MemoryStore(bucket)).tree, tree(1))


def test_a_commit_of_which_nobody_knows_had_succeeded_when_the_step_is_saved_again(bucket):
    def no_answer(request, effect):
        found = effect()
        if request.key.endswith("COMMIT") and request.verb == "get" and is_silent:
            raise TransientError("503")
        return found

    def unread(request, effect):
        if is_silent and layout.commit_key(1) in bucket.objects and request.verb != "put":
            raise TransientError("503")
        return no_answer(request, effect)

    is_silent = True
    worker = alone(bucket, unread)
    with pytest.raises(TransientError):
        worker.save(1, tree(1), wait=True)
    is_silent = False
    before = bucket.contents()
    assert worker.save(1, tree(1), wait=True) is True
    assert bucket.contents() == before


def test_a_zombie_that_commits_between_look_and_put_is_replaced(bucket):
    alone(bucket).save(1, tree(1), wait=True)
    zombie = alone(bucket, fence=2)
    zombie.restore()
    held = []

    def hold(request, effect):
        if request.verb == "put" and request.key == layout.commit_key(2):
            held.append(effect)
            raise OutcomeUnknownError("no answer")
        return effect()

    zombie._run.store.around = hold
    with pytest.raises(OutcomeUnknownError):
        zombie.save(2, tree(0), wait=True)

    def late(effect):
        held[0]()  # the zombie's COMMIT arrives only now
        return effect()

    later = alone(bucket, Once("step_000000000002/COMMIT", late), fence=3)
    assert later.restore().step == 1
    later.save(2, tree(2), wait=True)
    assert commit_of(bucket, 2).fence == 3
    assert same(restore_newest(MemoryStore(bucket)).tree, tree(2))


def test_a_step_that_is_there_is_not_replaced_by_another_run_of_the_same_line(bucket):
    alone(bucket).save(5, tree(5), wait=True)
    later = alone(bucket, fence=2)
    later.restore()
    before = bucket.objects[layout.commit_key(5)]
    assert later.save(5, tree(6), wait=True) is True
    assert bucket.objects[layout.commit_key(5)] == before


def test_two_processes_with_one_number_are_told(bucket):
    run = Run(MemoryStore(bucket), 1, timeout_s=0.1)
    run.workers[0].save(1, tree(1))
    twin = Checkpointer(MemoryStore(bucket), 1, 2, fence=1, timeout_s=0.1)
    run.workers[1].save(1, tree(1))
    run.workers[1].wait()
    twin.save(1, tree(1))
    with pytest.raises(ConflictError, match="another process is worker 1 of the run with fence 1"):
        twin.wait()


def test_a_corrupt_step_is_written_anew(bucket):
    alone(bucket).save(1, tree(1), wait=True)
    alone(bucket, fence=2).restore()
    run = alone(bucket, fence=3)
    run.restore()
    run.save(2, tree(2), wait=True)
    bucket.rot(layout.commit_key(2), b"{}")
    last = alone(bucket, fence=4)
    assert last.restore().step == 1
    last.save(2, tree(3), wait=True)
    assert commit_of(bucket, 2).fence == 4


def test_a_commit_tells_where_it_comes_from(bucket):
    Run(MemoryStore(bucket), 1).save(10, 20)
    run = Run(MemoryStore(bucket), 2)
    run.restore(10)
    run.save(30)
    commit = commit_of(bucket, 30)
    assert (commit.parent, commit.origin, commit.origin_fence) == (10, 10, 1)
    assert (commit.step, commit.fence, commit.worker_count, commit.block_bytes) == (
        30,
        2,
        2,
        8 * 2**20,
    )
    done = decode(bucket.objects[layout.done_key(30, 2, 1)][1])
    assert 0 <= done["blocked_ms"] <= commit.save_ms
    assert commit.blocked_ms >= done["blocked_ms"]


def test_a_commit_that_no_reader_would_take_is_not_written(bucket):
    worker = alone(bucket)
    worker._run = replace(worker._run, job=3)
    with pytest.raises(IntegrityError, match="job is not text"):
        worker.save(1, tree(1), wait=True)
    assert layout.commit_key(1) not in bucket.objects


def test_a_zombie_whose_commit_was_deleted_again_is_told_that_it_is_superseded(bucket):
    alone(bucket).save(1, tree(1), wait=True)
    zombie = alone(bucket, fence=2)
    zombie.restore()

    def overtaken(effect):
        entry = effect()
        alone(bucket, fence=3).restore()
        MemoryStore(bucket).delete(entry.key)
        return entry

    zombie._run.store.around = Once("COMMIT", overtaken)
    with pytest.raises(PreconditionError, match="fence 2 is superseded by that with 3"):
        zombie.save(2, tree(2), wait=True)


def test_a_copy_that_was_interrupted_spoils_no_later_one(bucket, monkeypatch):
    """Ctrl-C while several threads copy: one of them is still at it when the next save begins."""
    copy, late = snapshot.write_into, []

    def interrupted(*task):
        if late:
            raise KeyboardInterrupt
        late.append(task)

    worker = alone(bucket)
    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "write_into", interrupted)
        with pytest.raises(KeyboardInterrupt):
            worker.save(1, tree(1))
    held = threading.Event()
    worker._run.store.around = lambda _request, effect: (held.wait(10), effect())[1]
    worker.save(2, tree(2))
    copy(*late[0])
    held.set()
    worker.wait()
    assert same(restore_newest(MemoryStore(bucket)).tree, tree(2))


def test_a_save_of_a_superseded_run_commits_nothing(bucket):
    worker = alone(bucket)
    worker.save(1, tree(1), wait=True)
    alone(bucket, fence=2).restore()
    with pytest.raises(PreconditionError, match="superseded"):
        worker.save(2, tree(2), wait=True)
    assert [step.state for step in read_history(MemoryStore(bucket)).steps] == [
        "COMPLETE",
        "PARTIAL",
    ]


def test_a_run_whose_rollback_is_damaged_still_knows_which_steps_it_left(bucket):
    with alone(bucket) as first:
        first.save(10, tree(1))
        first.save(20, tree(2))
    with alone(bucket, fence=2) as second:
        second.restore(10)
        bucket.rot(layout.rollback_key(2), b"{}")
        second.save(20, tree(3))
    restored = restore_newest(MemoryStore(bucket), None, None)
    assert restored.step == 20
    assert same(restored.tree, tree(3))
