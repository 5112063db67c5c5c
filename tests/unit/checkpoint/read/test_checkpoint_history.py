"""Which steps are on the line of the newest run, and how few requests it takes to know."""

from dataclasses import replace

import numpy as np
import pytest

from tpuctl.checkpoint import Checkpointer, restore
from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.commit_schema import document
from tpuctl.checkpoint.format.manifest import decode_commit, encode, encode_commit
from tpuctl.checkpoint.format.record_cache import RecordCache
from tpuctl.checkpoint.read.lineage import (
    NO_ORIGIN,
    Lineage,
    LineageRun,
    Origin,
    origin_of,
    rollback_of,
    trace_lineage,
)
from tpuctl.checkpoint.read.step_history import CheckpointStep, read_history, read_manifest
from tpuctl.checkpoint.read.step_info import list_steps
from tpuctl.checkpoint.resume.resume_protocol import resume
from tpuctl.checkpoint.worker_run import WorkerRun
from tpuctl.errors import NotFoundError, PreconditionError
from tpuctl.store import open_store
from unit.checkpoint.memory_store import MemoryBucket, MemoryStore

RUNS = {9: Origin(30, 5), 5: Origin(20, 4), 4: Origin(40, 2), 2: NO_ORIGIN}


def run(bucket, fence, *steps, after=None, **options):
    """A run of one worker that goes on from a step, or begins again, and saves."""
    with Checkpointer(MemoryStore(bucket), 0, 1, fence=fence, keep=100, **options) as alone:
        if after is not None:
            alone.restore(after)
        for step in steps:
            alone.save(step, {"w": np.full(3, step)})
    return bucket


def states(bucket):
    return {step.step: step.state for step in read_history(MemoryStore(bucket)).steps}


def test_the_line_follows_the_origins_back():
    assert trace_lineage(9, 0, RUNS.get) == Lineage(
        (LineageRun(9, layout.LAST_STEP), LineageRun(5, 30), LineageRun(4, 20), LineageRun(2, 20))
    )


def test_runs_before_the_oldest_commit_matter_to_nobody():
    assert trace_lineage(9, 5, RUNS.get) == Lineage(
        (LineageRun(9, layout.LAST_STEP), LineageRun(5, 30))
    )


def test_where_an_origin_is_not_known_the_line_ends_in_doubt():
    line = trace_lineage(9, 0, {9: Origin(30, 5)}.get)
    assert line == Lineage(
        (LineageRun(9, layout.LAST_STEP), LineageRun(5, 30)), unknown_origin_fence=5
    )
    assert [line.may_contain(fence, step) for fence, step in ((4, 30), (4, 31), (5, 30))] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("step", "fence", "origin"),
    [
        (10, 3, Origin(10, 3)),
        (-1, -1, NO_ORIGIN),
        (10, 7, None),  # not older than itself
        (10, -1, None),
        (-1, 3, None),
        ("10", 3, None),
        (True, 0, None),
        (None, None, None),
    ],
)
def test_what_makes_no_sense_is_no_origin(step, fence, origin):
    assert origin_of(7, step, fence) == origin
    assert rollback_of(7, {"fence": 7, "from": step, "from_fence": fence}) == origin
    assert rollback_of(7, {"fence": 8, "from": step, "from_fence": fence}) is None


def test_a_superseded_run_that_says_late_where_it_went_on_changes_nothing():
    bucket = run(MemoryBucket(), 3, 10, 20)
    run(bucket, 6, after=20)
    late = encode({"fence": 5, "from": 10, "from_fence": 3})
    MemoryStore(bucket).put_if_absent(layout.rollback_key(5), late)
    assert states(bucket) == {10: "COMPLETE", 20: "COMPLETE"}


def test_a_commit_that_names_its_own_run_as_its_origin_ends_nowhere_else():
    bucket = run(MemoryBucket(), 3, 10)
    key = layout.commit_key(10)
    commit = replace(decode_commit(bucket.objects[key][1]), origin=5, origin_fence=3)
    MemoryStore(bucket).put_if_generation(
        key, encode_commit(commit), bucket.objects[key][0].generation
    )
    assert states(bucket) == {10: "COMPLETE"}


def test_a_run_below_a_commit_that_nobody_announced_does_not_go_on():
    bucket = run(MemoryBucket(), 1, 10)
    run(bucket, 7, 20, after=10)
    for key in (layout.run_key(7), layout.rollback_key(7)):
        del bucket.objects[key]
    with pytest.raises(PreconditionError, match="fence 3 is superseded by that with 7"):
        run(bucket, 3, 30, after=20)


def test_an_unreadable_commit_of_an_abandoned_line_is_not_of_this_one():
    bucket = run(MemoryBucket(), 1, 10, 20)
    run(bucket, 2, after=10)
    bucket.rot(layout.commit_key(20), b"{}")
    assert states(bucket) == {10: "COMPLETE", 20: "ROLLED_BACK"}
    bucket.rot(layout.commit_key(10), b"{}")
    assert states(bucket) == {10: "CORRUPT", 20: "ROLLED_BACK"}


def test_files_of_a_run_without_rollback_mean_that_it_is_lost():
    bucket = run(MemoryBucket(), 1, 10)
    run(bucket, 2, after=10)
    del bucket.objects[layout.rollback_key(2)]
    assert read_history(MemoryStore(bucket)).latest().step == 10
    MemoryStore(bucket).put_if_absent(layout.done_key(20, 2, 0), b"")
    history = read_history(MemoryStore(bucket))
    assert history.latest() is None
    assert history.find(10).reason == "it is not known where the run with fence 2 went on"


def test_a_run_that_was_only_told_to_stop_makes_no_older_step_doubtful():
    bucket = run(MemoryBucket(), 1, 10)
    store = MemoryStore(bucket)
    store.put_if_absent(layout.run_key(2), encode({"fence": 2}))
    store.put_if_absent(layout.stop_key(2, 0), encode({"fence": 2, "worker": 0, "step": 11}))
    assert restore(store).step == 10
    run(bucket, 3, 20, after=10)
    assert states(bucket) == {10: "COMPLETE", 20: "COMPLETE"}


def test_an_unreadable_commit_may_be_of_a_lower_fence_than_its_newest_files():
    bucket = run(MemoryBucket(), 1, 10)
    run(bucket, 2, 20, after=10)
    run(bucket, 4, 30, after=20)
    MemoryStore(bucket).put_if_absent(layout.shard_key(20, 3, 0, 1, 0), b"of a zombie")
    bucket.rot(layout.commit_key(20), b"{}")
    assert states(bucket) == {10: "COMPLETE", 20: "CORRUPT", 30: "COMPLETE"}


def test_a_history_reads_each_record_once_and_the_rollbacks_it_needs():
    bucket = run(MemoryBucket(), 1, 10)
    for fence in range(2, 9):
        run(bucket, fence, after=10)
    run(bucket, 9, 20, after=10)
    store, records = MemoryStore(bucket), RecordCache()
    read_history(store, records)
    read = [request.key for request in store.requests if request.verb == "get"]
    assert read == [layout.commit_key(10), layout.commit_key(20)]
    read_history(store, records)
    assert [request.verb for request in store.requests[3:]] == ["list"]


def test_many_steps_are_read_at_once_and_a_damaged_one_is_still_found():
    bucket = run(MemoryBucket(), 1, *range(10, 130, 10))
    bucket.rot(layout.commit_key(50), b"{}")
    expected = {step: "COMPLETE" for step in range(10, 130, 10)} | {50: "CORRUPT"}
    assert states(bucket) == expected


def test_a_directory_may_be_a_path_a_url_or_a_store(tmp_path):
    with Checkpointer(tmp_path, 0, 1, fence=1) as alone:
        alone.save(1, {"w": np.ones(1)})
    for directory in (tmp_path, str(tmp_path), open_store(str(tmp_path))):
        assert [info.step for info in list_steps(directory)] == [1]
        assert restore(directory).step == 1


def test_a_record_that_is_gone_is_forgotten():
    bucket = run(MemoryBucket(), 1, 10, 20)
    store, records = MemoryStore(bucket), RecordCache()
    read_history(store, records)
    store.delete(layout.commit_key(20))
    assert read_history(store, records).latest().step == 10
    assert len(records._known) == 1


def test_records_that_are_kept_hold_no_parts():
    store, records = MemoryStore(run(MemoryBucket(), 1, 10)), RecordCache()
    for _ in range(2):
        assert read_history(store, records).latest().commit.leaves == ()
    assert read_manifest(store, read_history(store).latest()).leaves != ()
    (entry,) = (entry for entry in store.list() if entry.key == layout.commit_key(10))
    learned = RecordCache()
    learned.add(entry, decode_commit(store.get_range(entry.key)))
    assert learned._known == records._known


def test_a_list_reads_the_heads_of_commits_and_sees_when_their_arrays_are_cut(monkeypatch):
    monkeypatch.setattr("tpuctl.checkpoint.format.record_cache._HEAD_BYTES", 100)
    bucket = MemoryBucket()
    with Checkpointer(MemoryStore(bucket), 0, 1, fence=1) as alone:
        for step in (10, 20):
            alone.save(step, {f"w{number}": np.ones(1) for number in range(500)}, wait=True)
    key = layout.commit_key(20)
    data = bucket.objects[key][1]
    assert data.index(b"\n") < 800 < len(data)
    bucket.rot(key, data[:-1] + b"!")
    assert states(bucket) == {10: "COMPLETE", 20: "COMPLETE"}
    ((step, reason),) = restore(MemoryStore(bucket)).skipped
    assert (step, reason) == (20, f"{key} is not what was written")
    with pytest.raises(NotFoundError, match="step 30 under memory has no COMMIT"):
        read_manifest(MemoryStore(bucket), CheckpointStep(30, ()))
    MemoryStore(bucket).put_if_generation(key, data[:-1], bucket.objects[key][0].generation)
    assert states(bucket) == {10: "COMPLETE", 20: "CORRUPT"}


def test_a_commit_of_one_line_is_read():
    bucket = run(MemoryBucket(), 1, 10)
    key = layout.commit_key(10)
    entry, data = bucket.objects[key]
    one_line = encode(document(decode_commit(data)))
    assert b"\n" in data
    assert b"\n" not in one_line
    MemoryStore(bucket).put_if_generation(key, one_line, entry.generation)
    assert states(bucket) == {10: "COMPLETE"}
    assert restore(MemoryStore(bucket)).tree["w"].tolist() == [10, 10, 10]


def test_what_a_run_has_read_to_resume_it_does_not_read_again():
    store, records = MemoryStore(run(MemoryBucket(), 1, 10, 20)), RecordCache()
    resume(WorkerRun(store, 0, 1, 2, 1.0), records=records)
    before = len(store.requests)
    assert read_history(store, records).latest().step == 20
    read = [request.key for request in store.requests[before:] if request.verb == "get"]
    assert read == [layout.rollback_key(2)]


def test_parts_that_say_the_same_share_a_box():
    tree = {name: np.ones(3) for name in ("a", "b")}
    bucket = MemoryBucket()
    with Checkpointer(MemoryStore(bucket), 0, 1, fence=1) as alone:
        alone.save(10, tree)
    store = MemoryStore(bucket)
    first, second = read_manifest(store, read_history(store).latest()).leaves
    assert first.parts[0].box is second.parts[0].box


def test_a_pinned_step_says_so():
    bucket = run(MemoryBucket(), 1, 10, 20)
    store = MemoryStore(bucket)
    store.put_if_absent(layout.pin_key(10), b"")
    assert [info.pinned for info in list_steps(store)] == [True, False]


def test_a_step_is_listed_with_who_wrote_it(monkeypatch):
    monkeypatch.setenv("TPUCTL_JOB", "digits")
    monkeypatch.setenv("TPUCTL_ATTEMPT", "2")
    (info,) = list_steps(MemoryStore(run(MemoryBucket(), 3, 10, program_version="v1")))
    assert (info.job, info.attempt, info.program, info.fence) == ("digits", 2, "v1", 3)
    assert info.save_ms >= 0
    assert info.blocked_ms >= 0
    assert info.created.endswith("Z")


def test_an_unfinished_step_is_described_by_its_newest_attempt():
    bucket = run(MemoryBucket(), 1, 10)
    run(bucket, 4, 20)
    MemoryStore(bucket).put_if_absent(layout.shard_key(20, 3, 0, 7, 0), b"older")
    size_bytes = len(bucket.objects[layout.shard_key(20, 4, 0, 1, 0)][1])
    del bucket.objects[layout.commit_key(20)]
    (_, info) = list_steps(MemoryStore(bucket))
    assert (info.state, info.size_bytes, info.workers, info.fence) == ("PARTIAL", size_bytes, 1, 4)
    assert (info.committed_s, info.reason) == (None, "there is no COMMIT")
