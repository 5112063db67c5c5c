"""Save, restore, resume: what a training program sees."""

import itertools
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tpuctl.checkpoint import Checkpointer, Shards, list_steps, restore, waited_time
from tpuctl.checkpoint.format.manifest import encode
from tpuctl.checkpoint.read.step_reader import restore_newest
from tpuctl.checkpoint.write.step_writer import SaveOutcome, _report
from tpuctl.errors import (
    ConflictError,
    DeadlineError,
    NoCheckpointError,
    PreconditionError,
    UsageError,
)
from tpuctl.store import open_store
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore
from unit.checkpoint.runs import Run, same, states, tree


@pytest.fixture
def place():
    """A checkpoint directory in memory: most of what is told here is the same anywhere."""
    return MemoryStore(MemoryBucket())


def test_what_was_saved_is_restored_by_every_worker(place):
    run = Run(place, 1, worker_count=4)
    assert run.restore() is None
    run.save(10, 20)
    restored = Run(place, 2, worker_count=4).restore()
    assert (restored.step, restored.skipped) == (20, ())
    assert same(restored.tree, tree(20))


@pytest.mark.parametrize("worker_count", [1, 2, 3, 8])
def test_any_number_of_workers_reads_what_any_number_wrote(place, worker_count):
    Run(place, 1, worker_count=4).save(5)
    assert same(Run(place, 2, worker_count=worker_count).restore().tree, tree(5))


def test_a_worker_on_its_own_needs_to_say_nothing(tmp_path):
    with Checkpointer(tmp_path) as checkpointer:
        assert checkpointer.restore() is None
        checkpointer.save(1, tree(1))
    with Checkpointer(tmp_path) as checkpointer:
        assert checkpointer.restore().step == 1
        checkpointer.save(2, tree(2))
    assert [(info.step, info.fence) for info in list_steps(open_store(str(tmp_path)))] == [
        (1, 1),
        (2, 2),
    ]


def test_a_program_says_how_long_it_waits_for_each_save_and_for_the_last_one(
    tmp_path, place, monkeypatch
):
    """By a clock of the test: a look at it takes a hundredth of a second."""
    told, ticks = tmp_path / "saving", itertools.count()
    monkeypatch.setenv("TPUCTL_SAVING_FILE", str(told))
    monkeypatch.setattr(waited_time, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 100))
    with Checkpointer(place, every=2) as checkpointer:
        checkpointer.save(2, tree(2))
        checkpointer.save(4, tree(4), wait=True)
    assert told.read_text() == "0.010\n" * 3  # the third is the end
    monkeypatch.setenv("TPUCTL_SAVING_FILE", str(tmp_path / "no" / "saving"))
    with Checkpointer(place, every=2) as checkpointer:
        assert checkpointer.save(6, tree(6))


def test_a_save_that_is_not_due_is_no_wait(tmp_path, place, monkeypatch):
    told = tmp_path / "saving"
    monkeypatch.setenv("TPUCTL_SAVING_FILE", str(told))
    monkeypatch.setattr(waited_time, "time", SimpleNamespace(monotonic=lambda: 5.0))
    with Checkpointer(place, every=2) as checkpointer:
        assert not checkpointer.save(1, tree(1))
    assert not told.exists()


def test_a_job_says_who_and_which_run_it_is(place, monkeypatch):
    for name, value in {
        "TPUCTL_WORKER_ID": "0",
        "TPUCTL_WORKER_COUNT": "1",
        "TPUCTL_FENCE": "7",
        "TPUCTL_CHECKPOINT_KEEP": "1",
        "TPUCTL_JOB": "digits",
        "TPUCTL_ATTEMPT": "3",
        "TPUCTL_PROGRAM_VERSION": "abc",
    }.items():
        monkeypatch.setenv(name, value)
    with Checkpointer(place) as checkpointer:
        for step in (1, 2):
            checkpointer.save(step, tree(step))
            checkpointer.close()
    (info,) = list_steps(place)
    assert (info.step, info.fence, info.job, info.attempt, info.program) == (
        2,
        7,
        "digits",
        3,
        "abc",
    )


def test_several_workers_need_a_fence(place):
    with pytest.raises(UsageError, match="4 workers need a fence") as error:
        Checkpointer(place, 0, 4)
    assert "TPUCTL_FENCE" in error.value.hint


@pytest.mark.parametrize("setting", ["TPUCTL_FENCE", "TPUCTL_WORKER_ID", "TPUCTL_CHECKPOINT_KEEP"])
def test_a_setting_that_is_no_number_is_named(place, monkeypatch, setting):
    monkeypatch.setenv(setting, "many")
    with pytest.raises(UsageError, match=f"{setting} is 'many'"):
        Checkpointer(place)


def test_a_reader_that_is_no_run_writes_nothing(tmp_path):
    Run(tmp_path, 1).save(1, 2)
    before = [entry.key for entry in open_store(str(tmp_path)).list()]
    assert restore(str(tmp_path)).step == 2
    assert same(restore(str(tmp_path), 1).tree, tree(1))
    assert [entry.key for entry in open_store(str(tmp_path)).list()] == before


def test_the_copy_is_taken_when_save_returns(place):
    with Checkpointer(place) as checkpointer:
        weights = np.ones(1000)
        checkpointer.save(1, {"weights": weights})
        weights[:] = 2
    assert restore_newest(place).tree["weights"].tolist() == [1.0] * 1000


def test_a_save_that_waits_is_there_when_it_returns(place):
    run = Run(place, 1, worker_count=3)
    steps = run.call(lambda worker: (worker.save(1, tree(1), wait=True), worker.latest())[1])
    assert steps == [1, 1, 1]
    assert same(restore_newest(place).tree, tree(1))


def test_only_every_nth_step_is_saved_and_the_last_by_force(place):
    with Checkpointer(place, every=3) as worker:
        saved = [worker.save(step, tree(step), force=step == 7) for step in range(1, 8)]
    assert saved == [False, False, True, False, False, True, True]
    assert states(place) == [(3, "COMPLETE"), (6, "COMPLETE"), (7, "COMPLETE")]


def test_the_newest_are_kept(tmp_path):
    Run(tmp_path, 1, keep=2).save(1, 2, 3, 4)
    assert states(tmp_path) == [(3, "COMPLETE"), (4, "COMPLETE")]
    left = {entry.key.partition("/")[0] for entry in open_store(str(tmp_path)).list()}
    assert left == {
        "RUN_0000000000000001",
        "ROLLBACK_0000000000000001",
        "step_000000000003",
        "step_000000000004",
    }


def test_the_newest_good_one_is_never_deleted(place):
    Run(place, 1, keep=0).save(1, 2)
    assert states(place) == [(2, "COMPLETE")]


def test_a_step_is_listed_with_its_size_and_age(place):
    Run(place, 3, worker_count=2).save(7)
    (info,) = list_steps(place)
    stored = list(place.list("step_000000000007/"))
    assert (info.step, info.state, info.workers, info.fence) == (7, "COMPLETE", 2, 3)
    assert info.size_bytes == sum(e.size_bytes for e in stored if "shard" in e.key)
    assert info.committed_s == next(e.updated_s for e in stored if e.key.endswith("COMMIT"))


def test_a_later_run_abandons_what_came_after_its_first_step(place):
    Run(place, 1).save(10, 20, 30)
    run = Run(place, 2)
    assert run.restore(10).step == 10
    assert states(place) == [(10, "COMPLETE"), (20, "ROLLED_BACK"), (30, "ROLLED_BACK")]
    run.save(20)
    assert states(place) == [(10, "COMPLETE"), (20, "COMPLETE"), (30, "ROLLED_BACK")]
    assert Run(place, 3).restore().step == 20


def test_a_run_that_restores_nothing_begins_a_new_line(place):
    Run(place, 1).save(10)
    Run(place, 2).save(5)
    assert states(place) == [(5, "COMPLETE"), (10, "ROLLED_BACK")]


def test_what_was_restored_is_not_saved_again(place):
    Run(place, 1).save(10)
    run = Run(place, 2)
    run.restore()
    assert run.call(lambda worker: worker.save(10, tree(10), force=True)) == [True, True]
    assert len(place.bucket.keys("step_000000000010/")) == 5


def test_a_zombie_cannot_commit_nor_delete(place):
    zombie = Run(place, 1, keep=1).save(10)
    Run(place, 2, keep=1).restore()
    for worker in zombie.workers:
        worker.save(20, tree(20))
    with pytest.raises(PreconditionError, match="fence 1 is superseded by that with 2"):
        zombie.workers[0].wait()
    assert states(place) == [(10, "COMPLETE"), (20, "PARTIAL")]


def test_what_a_zombie_commits_later_is_invisible(place):
    Run(place, 1).save(10, 20)
    # As when the zombie's COMMIT arrives after the run with fence 2 went on from step 10.
    record = encode({"fence": 2, "from": 10, "from_fence": 1})
    place.put_if_absent("ROLLBACK_0000000000000002", record)
    assert states(place) == [(10, "COMPLETE"), (20, "ROLLED_BACK")]
    assert Run(place, 3).restore().step == 10


def test_a_step_interrupted_by_preemption_is_saved_again(place):
    run = Run(place, 1, timeout_s=0.1).save(10)
    run.workers[0].save(20, tree(20))
    with pytest.raises(
        DeadlineError, match=r"step 20 is not saved: after 0.1 s worker 1 is missing"
    ):
        run.workers[0].wait()
    assert states(place) == [(10, "COMPLETE"), (20, "PARTIAL")]
    again = Run(place, 2)
    assert again.restore().step == 10
    again.save(20)
    assert same(Run(place, 3).restore().tree, tree(20))


def test_a_failed_save_is_raised_at_the_next_call_and_only_once(place):
    run = Run(place, 1, timeout_s=0.1)
    run.workers[0].save(1, tree(1))
    with pytest.raises(DeadlineError):
        run.workers[0].save(2, tree(2))
    run.workers[0].close()


def test_a_step_that_is_not_due_waits_for_nothing_but_tells_of_a_failure(place):
    worker = Checkpointer(place, 0, 2, fence=1, every=10, timeout_s=2)
    worker.save(10, tree(10))  # worker 1 will not come
    assert worker.save(11, tree(11)) is False


def test_a_program_that_failed_does_not_wait_for_its_save(place):
    with (
        pytest.raises(ZeroDivisionError),
        Checkpointer(place, 0, 2, fence=1, timeout_s=2) as checkpointer,
    ):
        checkpointer.save(1, tree(1))
        raise ZeroDivisionError
    assert checkpointer.latest() is None


def test_a_program_that_exits_well_waits_for_its_save(place):
    with pytest.raises(SystemExit), Checkpointer(place) as checkpointer:
        checkpointer.save(1, tree(1))
        raise SystemExit(0)
    assert states(place) == [(1, "COMPLETE")]


def test_the_others_wait_for_worker_0_but_not_for_ever(place):
    run = Run(place, 1, timeout_s=0.1)
    with pytest.raises(DeadlineError, match="worker 0 has not decided"):
        run.workers[1].restore()


def test_a_fence_is_used_once(place):
    Run(place, 1).save(1)
    with pytest.raises(ConflictError, match="a run with fence 1 has used"):
        Run(place, 1).workers[0].restore()


def test_a_lower_fence_is_too_late(place):
    Run(place, 5).save(1)
    with pytest.raises(PreconditionError, match="superseded"):
        Run(place, 4).workers[0].restore()


def test_a_step_that_is_there_is_not_written_again(place):
    """The last step is due, and then forced: worker 1 may ask before worker 0 has committed it."""
    run = Run(place, 1)
    run.call(lambda worker: worker.save(1, tree(1)))
    assert run.call(lambda worker: worker.save(1, tree(2), force=True)) == [True, True]
    assert same(restore_newest(place).tree, tree(1))
    assert len(place.bucket.keys("step_000000000001/a_")) == 4


def test_steps_grow(place):
    worker = Run(place, 1, worker_count=1).save(5).workers[0]
    with pytest.raises(UsageError, match="step 4 after step 5"):
        worker.save(4, tree(4))
    (later,) = Run(place, 2, worker_count=1).workers
    later.restore()
    with pytest.raises(
        UsageError, match="step 1 is not after step 5, from which this run continued"
    ):
        later.save(1, tree(1))


@pytest.mark.parametrize("step", [-1, 10**12, 1.0, "1", None])
def test_what_cannot_be_a_step_is_refused(place, step):
    with pytest.raises(UsageError):
        Checkpointer(place).save(step, {})


@pytest.mark.parametrize(
    "refused",
    [
        {"every": 0},
        {"every": 1.5},
        {"keep": "3"},
        {"fence": 10**16},
        {"worker_id": 1},
        {"program_version": 1},
    ],
)
def test_what_makes_no_sense_of_a_run_is_refused(place, refused):
    with pytest.raises(UsageError):
        Checkpointer(place, **refused)


@pytest.mark.parametrize("directory", ["", "s3://bucket/run", "gs:/bucket", "file:///tmp/run"])
def test_a_directory_that_would_be_another_one_is_refused(directory):
    with pytest.raises(UsageError, match="is not a place"):
        Checkpointer(directory)


def test_numbers_may_be_those_of_numpy(place):
    one = np.int64(1)
    with Checkpointer(place, np.int32(0), one, fence=one, keep=one, every=one) as checkpointer:
        checkpointer.save(one, tree(1))
    assert restore_newest(place).step == 1


def test_a_step_that_is_asked_for_must_be_there(place):
    Run(place, 1).save(1)
    with pytest.raises(NoCheckpointError):
        Run(place, 2).workers[0].restore(2)
    with pytest.raises(NoCheckpointError, match="no step 2"):
        restore_newest(place, 2)


def test_workers_that_hold_other_trees_are_told(place):
    run = Run(place, 1)
    run.workers[0].save(1, {"w": np.ones(4)})
    run.workers[1].save(1, {"w": np.ones(3)})
    with pytest.raises(UsageError, match="worker 1 saved another tree at step 1 than worker 0"):
        run.workers[0].wait()
    assert states(place) == [(1, "PARTIAL")]


def test_workers_that_do_not_hold_all_of_an_array_are_told(place):
    run = Run(place, 1)
    for worker_id, worker in enumerate(run.workers):
        worker.save(1, {"w": Shards((4,), np.int64, {(worker_id,): np.ones(2, np.int64)})})
    with pytest.raises(UsageError, match="w: the workers together hold too few of its elements"):
        run.workers[0].wait()


def test_workers_save_what_each_holds(place):
    run = Run(place, 1)
    for worker_id, worker in enumerate(run.workers):
        rows = np.full((2, 3), worker_id)
        worker.save(1, {"w": Shards((4, 3), rows.dtype, {(2 * worker_id, 0): rows})})
    for worker in run.workers:
        worker.close()
    assert restore_newest(place).tree["w"].tolist() == [[0] * 3] * 2 + [[1] * 3] * 2


def test_what_cannot_be_saved_is_refused_and_nothing_is_written(place):
    worker = Checkpointer(place, 0, 1, fence=1)
    with pytest.raises(UsageError, match="cannot save a/0: "):
        worker.save(1, {"a": [np.array([None])]})
    assert [entry.key for entry in place.list()] == [
        "ROLLBACK_0000000000000001",
        "RUN_0000000000000001",
    ]


DTYPES = ["bool", "int8", "uint16", "int32", "uint64", "float16", "float64", "complex64", ">f4"]
SHAPES = [(), (1,), (0,), (5,), (4, 0, 2), (9, 2)]


def test_every_dtype_and_shape_comes_back(tmp_path):
    arrays = [
        np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        for dtype in DTYPES
        for shape in SHAPES
    ]
    run = Run(tmp_path, 1)
    for worker in run.workers:
        worker.save(1, [array.T.copy().T for array in arrays])
    for worker in run.workers:
        worker.close()
    for array, found in zip(arrays, restore(str(tmp_path)).tree, strict=True):
        assert (found.dtype.name, found.shape) == (array.dtype.name, array.shape)
        assert np.array_equal(found, array)


@pytest.mark.parametrize("found", [{}, None, [], {"step": 3}, np.float32(1.5), np.zeros((0, 3))])
def test_a_tree_of_hardly_anything_comes_back(place, found):
    run = Run(place, 1, worker_count=3)
    run.call(lambda worker: worker.save(1, found, wait=True))
    assert same(restore_newest(place).tree, found)


ENDS = {
    "without a word": "",
    "by an error": "raise ZeroDivisionError",
    "by its own choice": "raise SystemExit(3)",
}


@pytest.mark.system
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_a_program_that_ends_has_saved_its_last_step(tmp_path, end):
    """Without close, and without `with`."""
    program = """
import sys, numpy
from tpuctl.checkpoint import Checkpointer
checkpointer = Checkpointer(sys.argv[1])
checkpointer.save(1, {"w": numpy.ones(1_000_000)})
"""
    subprocess.run(
        [sys.executable, "-c", program + end, str(tmp_path)], capture_output=True, check=False
    )
    assert restore(str(tmp_path)).tree["w"].shape == (1_000_000,)


@pytest.mark.system
def test_a_program_that_ends_before_its_last_step_is_there_is_told(tmp_path):
    program = """
import sys
from tpuctl.checkpoint import Checkpointer
checkpointer = Checkpointer(sys.argv[1], 0, 2, fence=1, timeout_s=0.1)
checkpointer.save(1, {})
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ended.stderr == (
        "tpuctl: the last save failed: step 1 is not saved: after 0.1 s worker 1 is missing\n"
    )


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (SaveOutcome(), ""),
        (SaveOutcome(DeadlineError("late")), "tpuctl: the last save failed: late\n"),
        (
            SaveOutcome(DeadlineError("broke off"), step_in_progress=30),
            "tpuctl: step 30 was being saved when the program ended: it may be missing\n",
        ),
    ],
)
def test_what_a_program_left_is_said_at_its_end(capsys, outcome, said):
    """Ctrl-C twice: Python ends while the step is still being saved."""
    _report(outcome)
    assert capsys.readouterr().err == said


def test_steps_that_are_not_due_take_memory_for_the_first_that_is(tmp_path):
    with Checkpointer(str(tmp_path), 0, 1, fence=1, every=3) as alone:
        for step in (1, 2, 3, 4, 5, 6):
            assert alone.save(step, tree(step)) == (step % 3 == 0)
            if step < 3:
                alone._memory._warming.join()
                assert len(alone._memory._chunks) == 1
        assert not alone.save(7, {"no": object()})
    assert same(restore(str(tmp_path), 3).tree, tree(3))
    assert same(restore(str(tmp_path), 6).tree, tree(6))
    with Checkpointer(str(tmp_path), 0, 1, fence=2, every=10) as other:
        assert not other.save(7, {"no": object()}), "what cannot be saved is said when it is due"
