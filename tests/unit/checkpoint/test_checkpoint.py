"""Save, restore, resume: what a training program sees."""

import numpy as np
import pytest
from runs import Run, same, states, tree

from tpuctl.checkpoint import Checkpointer, list_steps, restore
from tpuctl.checkpoint.manifest import encode
from tpuctl.errors import (
    ConflictError,
    DeadlineError,
    NoCheckpointError,
    PreconditionError,
    UsageError,
)
from tpuctl.store import open_store


def test_what_was_saved_is_restored_by_every_worker(tmp_path):
    run = Run(tmp_path, 1, worker_count=4)
    assert run.restore() is None
    run.save(10, 20)
    restored = Run(tmp_path, 2, worker_count=4).restore()
    assert (restored.step, restored.skipped) == (20, ())
    assert same(restored.tree, tree(20))


@pytest.mark.parametrize("worker_count", [1, 2, 3, 8])
def test_any_number_of_workers_reads_what_any_number_wrote(tmp_path, worker_count):
    Run(tmp_path, 1, worker_count=4).save(5)
    assert same(Run(tmp_path, 2, worker_count=worker_count).restore().tree, tree(5))


def test_a_reader_that_is_no_run_writes_nothing(tmp_path):
    Run(tmp_path, 1).save(1, 2)
    before = [entry.key for entry in open_store(str(tmp_path)).list()]
    assert restore(str(tmp_path)).step == 2
    assert same(restore(str(tmp_path), 1).tree, tree(1))
    assert [entry.key for entry in open_store(str(tmp_path)).list()] == before


def test_the_copy_is_taken_when_save_returns(tmp_path):
    with Checkpointer(str(tmp_path), worker_id=0, worker_count=1, fence=1) as checkpointer:
        weights = np.ones(1000)
        checkpointer.save(1, {"weights": weights})
        weights[:] = 2
    assert restore(str(tmp_path)).tree["weights"].tolist() == [1.0] * 1000


def test_only_every_nth_step_is_saved(tmp_path):
    with Checkpointer(str(tmp_path), worker_id=0, worker_count=1, fence=1, every=3) as worker:
        assert [worker.save(step, tree(step)) for step in range(1, 8)] == [
            step % 3 == 0 for step in range(1, 8)
        ]
    assert states(tmp_path) == [(3, "COMPLETE"), (6, "COMPLETE")]


def test_the_newest_are_kept(tmp_path):
    Run(tmp_path, 1, keep=2).save(1, 2, 3, 4)
    assert states(tmp_path) == [(3, "COMPLETE"), (4, "COMPLETE")]
    left = {entry.key.partition("/")[0] for entry in open_store(str(tmp_path)).list()}
    assert left == {"ROLLBACK_0000000000000001", "step_000000000003", "step_000000000004"}


def test_the_newest_good_one_is_never_deleted(tmp_path):
    Run(tmp_path, 1, keep=0).save(1, 2)
    assert states(tmp_path) == [(2, "COMPLETE")]


def test_a_step_is_listed_with_its_size_and_age(tmp_path):
    Run(tmp_path, 3, worker_count=2).save(7)
    (info,) = list_steps(open_store(str(tmp_path)))
    stored = list(open_store(str(tmp_path)).list("step_000000000007/"))
    assert (info.step, info.state, info.workers, info.fence) == (7, "COMPLETE", 2, 3)
    assert info.size_bytes == sum(e.size_bytes for e in stored if "shard" in e.key)
    assert info.committed_s == next(e.updated_s for e in stored if e.key.endswith("COMMIT"))


def test_a_later_run_abandons_what_came_after_its_first_step(tmp_path):
    Run(tmp_path, 1).save(10, 20, 30)
    run = Run(tmp_path, 2)
    assert run.restore(10).step == 10
    assert states(tmp_path) == [(10, "COMPLETE"), (20, "ROLLED_BACK"), (30, "ROLLED_BACK")]
    run.save(20)
    assert states(tmp_path) == [(10, "COMPLETE"), (20, "COMPLETE"), (30, "ROLLED_BACK")]
    assert Run(tmp_path, 3).restore().step == 20


def test_a_run_that_restores_nothing_begins_a_new_line(tmp_path):
    Run(tmp_path, 1).save(10)
    Run(tmp_path, 2).save(5)
    assert states(tmp_path) == [(5, "COMPLETE"), (10, "ROLLED_BACK")]


def test_a_zombie_cannot_commit_nor_delete(tmp_path):
    zombie = Run(tmp_path, 1, keep=1).save(10)
    Run(tmp_path, 2, keep=1).restore()
    for worker in zombie.workers:
        worker.save(20, tree(20))
    with pytest.raises(PreconditionError, match="fence 1 is superseded by that with 2"):
        zombie.workers[0].wait()
    assert states(tmp_path) == [(10, "COMPLETE"), (20, "PARTIAL")]


def test_what_a_zombie_commits_later_is_invisible(tmp_path):
    Run(tmp_path, 1).save(10, 20)
    # As when the zombie's COMMIT arrives after the run with fence 2 went on from step 10.
    (tmp_path / "ROLLBACK_0000000000000002").write_bytes(encode({"fence": 2, "from": 10}))
    assert states(tmp_path) == [(10, "COMPLETE"), (20, "ROLLED_BACK")]
    assert Run(tmp_path, 3).restore().step == 10


def test_a_step_interrupted_by_preemption_is_saved_again(tmp_path):
    run = Run(tmp_path, 1, timeout_s=0.1).save(10)
    run.workers[0].save(20, tree(20))
    with pytest.raises(
        DeadlineError, match="step 20 is not saved: after 0.1 s worker 1 is missing"
    ):
        run.workers[0].wait()
    assert states(tmp_path) == [(10, "COMPLETE"), (20, "PARTIAL")]
    again = Run(tmp_path, 2)
    assert again.restore().step == 10
    again.save(20)
    assert same(Run(tmp_path, 3).restore().tree, tree(20))


def test_the_same_run_tries_a_failed_step_again(tmp_path):
    run = Run(tmp_path, 1, timeout_s=0.1)
    run.workers[0].save(20, tree(1))
    with pytest.raises(DeadlineError):
        run.workers[0].wait()
    run.save(20)
    assert same(restore(str(tmp_path)).tree, tree(20))


def test_a_failed_save_is_raised_at_the_next_call_and_only_once(tmp_path):
    run = Run(tmp_path, 1, timeout_s=0.1)
    run.workers[0].save(1, tree(1))
    with pytest.raises(DeadlineError):
        run.workers[0].save(2, tree(2))
    run.workers[0].close()


def test_a_program_that_failed_does_not_wait_for_its_save(tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        Checkpointer(
            str(tmp_path), worker_id=0, worker_count=2, fence=1, timeout_s=60
        ) as checkpointer,
    ):
        checkpointer.save(1, tree(1))
        raise ZeroDivisionError
    assert checkpointer.latest() is None


def test_the_others_wait_for_worker_0_but_not_for_ever(tmp_path):
    run = Run(tmp_path, 1, timeout_s=0.1)
    with pytest.raises(DeadlineError, match="worker 0 has not said"):
        run.workers[1].restore()


def test_a_fence_is_used_once(tmp_path):
    Run(tmp_path, 1).save(1)
    with pytest.raises(ConflictError, match="a run with fence 1 has used"):
        Run(tmp_path, 1).restore()


def test_a_lower_fence_is_too_late(tmp_path):
    Run(tmp_path, 5).save(1)
    with pytest.raises(PreconditionError, match="superseded"):
        Run(tmp_path, 4).restore()


def test_a_committed_step_is_never_replaced(tmp_path):
    run = Run(tmp_path, 1).save(1)
    with pytest.raises(PreconditionError, match="step 1 is committed already"):
        run.save(1)
    assert same(restore(str(tmp_path)).tree, tree(1))


def test_a_step_that_is_asked_for_must_be_there(tmp_path):
    Run(tmp_path, 1).save(1)
    with pytest.raises(NoCheckpointError):
        Run(tmp_path, 2).workers[0].restore(2)
    with pytest.raises(NoCheckpointError, match="there is no step 2"):
        restore(str(tmp_path), 2)


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        ({"a": [1.0]}, "cannot save /a/0: a float is no numpy array"),
        ({"a": np.array([None])}, "cannot save /a: dtype object is not supported"),
        ({"a": np.array(["x"])}, "cannot save /a: dtype <U1 is not supported"),
        ({1: np.ones(1)}, "the keys of the tree must be strings"),
        (None, "cannot save the tree: a NoneType is no numpy array"),
    ],
)
def test_what_cannot_be_saved_is_refused_by_its_place(tmp_path, refused, reason):
    worker = Checkpointer(str(tmp_path), worker_id=0, worker_count=1, fence=1)
    with pytest.raises(UsageError) as error:
        worker.save(1, refused)
    assert str(error.value) == reason


DTYPES = [
    "bool",
    "int8",
    "uint16",
    "int32",
    "uint64",
    "float16",
    "float32",
    "float64",
    ">f4",
    ">i8",
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (5,), (4, 0, 2), (9, 2)])
def test_every_dtype_and_shape_comes_back(tmp_path, dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    workers = [
        Checkpointer(str(tmp_path), worker_id=i, worker_count=2, fence=1, timeout_s=5)
        for i in range(2)
    ]
    for worker in workers:
        worker.save(1, [array.T.copy().T])
    for worker in workers:
        worker.close()
    (restored,) = restore(str(tmp_path)).tree
    assert (restored.dtype.name, restored.shape) == (array.dtype.name, shape)
    assert np.array_equal(restored, array)
