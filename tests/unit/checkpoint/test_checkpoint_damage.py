"""Flipped, cut, missing and exchanged objects: always found, never restored."""

import json
import os
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tpuctl.checkpoint import list_steps, restore
from tpuctl.checkpoint.format.commit_schema import document
from tpuctl.checkpoint.format.manifest import decode, decode_commit, encode
from tpuctl.errors import IntegrityError, NoCheckpointError, PreconditionError
from tpuctl.store import crc32c, open_store
from unit.checkpoint.runs import Run, same, states, tree

SHARD = "step_000000000020/a_0000000000000001/shard_1-of_2_0.safetensors"
COMMIT = "step_000000000020/COMMIT"


@pytest.fixture
def saved(tmp_path):
    Run(tmp_path, 1).save(10, 20)
    return tmp_path


def rewrite(path, data):
    """Change a file behind the store's back: even its time stays."""
    status = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def forget_checksums(saved):
    """Then only the format's own checks stand between the reader and the damage."""
    shutil.rmtree(saved / ".tpuctl-store" / "crc32c")


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    rewrite(path, bytes(data))


@pytest.mark.parametrize("is_store_blind", [False, True])
@pytest.mark.parametrize("name", [SHARD, COMMIT])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bit=st.integers(0, 8 * 4096))
def test_any_flipped_bit_sends_the_reader_one_step_back(saved, name, is_store_blind, bit):
    if is_store_blind and (saved / ".tpuctl-store" / "crc32c").exists():
        forget_checksums(saved)
    path = saved / name
    whole = path.read_bytes()
    flip(path, bit)
    try:
        restored = restore(str(saved))
    finally:
        rewrite(path, whole)
    assert restored.step == 10
    assert [step for step, _ in restored.skipped] == [20]
    assert same(restored.tree, tree(10))


def cut(saved):
    path = saved / SHARD
    rewrite(path, path.read_bytes()[:-1])


def empty(saved):
    rewrite(saved / SHARD, b"")


def remove(saved):
    (saved / SHARD).unlink()


def exchange(saved):
    first, second = saved / SHARD, saved / SHARD.replace("shard_1", "shard_0")
    one, other = first.read_bytes(), second.read_bytes()
    rewrite(first, other)
    rewrite(second, one)


def take_the_commit_of_another_step(saved):
    rewrite(saved / COMMIT, (saved / COMMIT.replace("20", "10")).read_bytes())


def empty_the_commit(saved):
    rewrite(saved / COMMIT, b"")


def no_json(saved):
    rewrite(saved / COMMIT, b"\xff\x00[[[[")


DAMAGES = [cut, empty, remove, exchange]
DAMAGES += [take_the_commit_of_another_step, empty_the_commit, no_json]
UNFINISHED = (cut, empty, remove, exchange)
"""What a copy that is still on its way looks like as well: a file is missing, or too short."""


@pytest.mark.parametrize("is_store_blind", [False, True])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_step_is_marked_reported_and_never_used_again(
    saved, damage, is_store_blind, caplog
):
    damage(saved)
    if is_store_blind:
        forget_checksums(saved)
    run = Run(saved, 2)
    with caplog.at_level("WARNING"):
        restored = run.restore()
    assert (restored.step, same(restored.tree, tree(10))) == (10, True)
    ((step, reason),) = restored.skipped
    told = f"checkpoint of step 20 is damaged: {reason}; going on from step 10"
    assert [each.getMessage() for each in caplog.records] == [told]
    assert step == 20
    assert reason
    marks = [*(saved / "step_000000000020").glob("BAD_*")]
    assert [decode(bad.read_bytes())["reason"] for bad in marks] == [reason] * (
        damage not in UNFINISHED
    )
    run.save(20)
    assert same(Run(saved, 3).restore().tree, tree(20))


def test_a_damaged_step_is_listed_with_the_reason(saved):
    remove(saved)
    assert states(saved) == [(10, "COMPLETE"), (20, "CORRUPT")]
    assert list_steps(open_store(str(saved)))[1].reason == f"{SHARD}: missing"
    flip(saved / COMMIT, 800)
    assert states(saved) == [(10, "COMPLETE"), (20, "CORRUPT")]
    reason = list_steps(open_store(str(saved)))[1].reason
    assert reason.startswith("COMMIT: ")
    assert "is not what was written" in reason


def test_what_only_a_reader_can_find_is_listed_once_a_run_has_found_it(saved):
    flip(saved / SHARD, 999)
    assert states(saved) == [(10, "COMPLETE"), (20, "COMPLETE")]
    Run(saved, 2).restore()
    assert states(saved) == [(10, "COMPLETE"), (20, "ROLLED_BACK")]
    info = list_steps(open_store(str(saved)))[1]
    assert info.reason == "a later run went on from an earlier step"


def test_a_step_asked_for_by_name_is_not_replaced_by_another(saved):
    flip(saved / SHARD, 999)
    with pytest.raises(NoCheckpointError, match="step 20: .*shard_1-of_2_0.safetensors: its b"):
        restore(str(saved), 20)


def test_when_no_step_is_whole_the_run_does_not_start_over_in_silence(saved):
    for step in (10, 20):
        flip(saved / SHARD.replace("20", str(step)), 999)
    with pytest.raises(NoCheckpointError, match="step 20: .*; step 10: ") as error:
        Run(saved, 2, worker_count=1).restore()
    assert error.value.hint == "to start from nothing, give the run another checkpoint directory"
    assert not (saved / "ROLLBACK_0000000000000002").exists()


def test_a_checkpoint_of_a_newer_schema_is_refused_not_skipped(saved):
    record = {**document(decode_commit((saved / COMMIT).read_bytes())), "schema": 3}
    body = json.dumps(record, sort_keys=True, separators=(",", ":"))
    newer = f'{{"crc32c":"{crc32c(body.encode())}","record":{body}}}'
    (saved / COMMIT).write_text(newer)
    with pytest.raises(PreconditionError, match="schema 3, this tpuctl reads 2"):
        restore(str(saved))


def test_a_commit_whose_parts_leave_a_hole_is_no_checkpoint(saved):
    record = document(decode_commit((saved / COMMIT).read_bytes()))
    record["leaves"][1]["parts"].pop()
    rewrite(saved / COMMIT, encode(record))
    restored = restore(str(saved))
    assert restored.step == 10
    assert restored.skipped[0][0] == 20


def test_foreign_objects_are_left_alone(saved):
    foreign = saved / "step_000000000010" / "notes.txt"
    foreign.write_text("mine")
    Run(saved, 2, keep=1).save(30)
    assert [(i.step, i.state) for i in list_steps(open_store(str(saved)))][-1] == (30, "COMPLETE")
    assert foreign.read_text() == "mine"


def test_a_record_with_another_spelling_is_not_accepted():
    data = encode({"a": 1})
    assert decode(data) == {"a": 1, "schema": 2}
    others = (data + b" ", data.replace(b":", b": ", 1), data.replace(b":1,", b":1.0,"))
    for other in others:
        assert other != data
        with pytest.raises(IntegrityError):
            decode(other)
