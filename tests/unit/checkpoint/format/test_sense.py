"""A record that is whole and is not valid is refused: a reader relies on all that is checked."""

from dataclasses import replace

import pytest

from tpuctl.checkpoint.arrays.boxes import Box, whole_box
from tpuctl.checkpoint.format.commit_schema import (
    Commit,
    DoneRecord,
    Leaf,
    Part,
    StoredObject,
    document,
)
from tpuctl.checkpoint.format.layout import shard_key
from tpuctl.checkpoint.format.manifest import (
    decode,
    decode_commit,
    decode_done,
    encode,
    encode_commit,
    encode_done,
    tree_digest,
)
from tpuctl.errors import IntegrityError, PreconditionError

OBJECT = StoredObject(shard_key(5, 1, 0, 1, 0), 24, 99, "AAAAAA==", "AAAAAA==")
COMMIT = Commit(
    step=5,
    fence=1,
    parent=-1,
    origin=-1,
    origin_fence=-1,
    worker_count=1,
    job="",
    attempt=0,
    program="",
    writer="tpuctl",
    created="2026-11-21T08:00:00Z",
    save_ms=3,
    blocked_ms=1,
    block_bytes=64,
    tree={"dict": {"a": {"array": 0}, "b": {"scalar": 1}, "c": {"int": 7}}},
    leaves=(
        Leaf("int8", (8,), None, (Part(0, 8, Box((0,), (4,))), Part(0, 12, Box((4,), (4,))))),
        Leaf("float64", (), None, (Part(0, 16, whole_box(())),)),
    ),
    objects=(OBJECT,),
)
DONE = DoneRecord(0, 1, "ab" * 16, 0, "AAAAAA==", 1, (OBJECT,), ((0, Part(0, 8, Box((0,), (8,)))),))


def leaf(**change):
    return {"leaves": (replace(COMMIT.leaves[0], **change), COMMIT.leaves[1])}


def parts(*found):
    return leaf(parts=found)


def stored(**change):
    return {"objects": (replace(OBJECT, **change),)}


def test_what_was_written_is_read():
    assert decode_commit(encode_commit(COMMIT)) == COMMIT
    assert decode_done(encode_done(DONE)) == DONE


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"step": -1}, "-1 is not a count"),
        ({"fence": True}, "True is not a count"),
        ({"fence": 7}, "belongs to another step or run"),
        ({"step": 6}, "belongs to another step or run"),
        ({"fence": 10**16, "objects": (), "leaves": (), "tree": {"none": 0}}, "cannot be named"),
        ({"save_ms": 2**63}, "is not a count"),
        ({"save_ms": 10**400}, "0 is not a count"),
        ({"parent": -2}, "-1 is not a count"),
        ({"step": 10**12}, "cannot be named"),
        ({"block_bytes": 0}, "-1 is not a count"),
        ({"job": 3}, "job is not text"),
        ({"tree": {"array": 0}}, "does not name each leaf exactly once"),
        ({"tree": {"list": [{"array": 0}, {"array": 0}]}}, "does not name each leaf exactly once"),
        ({"tree": {"pickle": 0}}, "pickle"),
        ({"tree": {"array": 0, "list": []}}, "exactly one kind"),
        (leaf(dtype="object"), "unknown dtype 'object'"),
        (leaf(shape=(9,)), "do not cover it"),
        (parts(Part(0, 8, Box((0,), (4,)))), "do not cover it"),
        (parts(Part(0, 8, Box((0,), (4,))), Part(0, 12, Box((3,), (5,)))), "do not cover it"),
        (parts(Part(1, 8, Box((0,), (8,)))), "is not valid"),
        (parts(Part(-1, 8, Box((0,), (8,)))), "-1 is not a count"),
        (parts(Part(0, -8, Box((0,), (8,)))), "-8 is not a count"),
        (parts(Part(0, 17, Box((0,), (8,)))), "after the end"),
        (parts(Part(0, 10, Box((0,), (8,)))), "a byte in common"),
        (stored(path="../../etc/passwd"), "is not the name of a file"),
        (stored(path="step_000000000005/COMMIT"), "is not the name of a file"),
        (stored(blocks=""), "does not have 1 checksums"),
        (stored(size_bytes=65), "does not have 2 checksums"),
        (stored(generation=-1), "-1 is not a count"),
    ],
)
def test_a_commit_that_makes_no_sense_is_refused(change, reason):
    with pytest.raises(IntegrityError, match="the manifest is not valid") as error:
        decode_commit(encode_commit(replace(COMMIT, **change)))
    assert reason in str(error.value)


def test_a_field_more_or_less_is_refused():
    record = document(COMMIT)
    for changed in ({**record, "more": 1}, {k: v for k, v in record.items() if k != "step"}):
        with pytest.raises(IntegrityError):
            decode_commit(encode(changed))


@pytest.mark.parametrize(
    "change",
    [
        {"parts": ((0, Part(1, 8, Box((0,), (8,)))),)},
        {"parts": ((-1, Part(0, 8, Box((0,), (8,)))),)},
        {"round": -1},
        {"worker": "0"},
    ],
)
def test_a_done_record_that_makes_no_sense_is_refused(change):
    with pytest.raises(IntegrityError):
        decode_done(encode_done(replace(DONE, **change)))


def test_every_changed_bit_of_a_record_is_noticed():
    data = encode_done(DONE)
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IntegrityError):
            decode(bytes(changed))


def test_another_spelling_of_the_same_record_is_refused():
    data = encode({"fence": 1})
    for changed in (data + b"\n", data.replace(b":", b": "), b"[]", b"", b"\xff", b"[" * 100_000):
        with pytest.raises(IntegrityError):
            decode(changed)


def test_a_record_of_another_schema_is_neither_skipped_nor_guessed(monkeypatch):
    monkeypatch.setattr("tpuctl.checkpoint.format.layout.SCHEMA", 3)
    data = encode({"fence": 1})
    monkeypatch.undo()
    with pytest.raises(PreconditionError, match="has schema 3, this tpuctl reads 2"):
        decode(data)


def test_the_digest_tells_trees_apart_and_not_workers():
    other = replace(COMMIT.leaves[0], shape=(9,))
    same = replace(COMMIT.leaves[0], parts=())
    assert tree_digest(COMMIT.tree, [COMMIT.leaves[0]]) == tree_digest(COMMIT.tree, [same])
    assert tree_digest(COMMIT.tree, [COMMIT.leaves[0]]) != tree_digest(COMMIT.tree, [other])
    assert tree_digest({"list": []}, []) != tree_digest({"tuple": []}, [])
