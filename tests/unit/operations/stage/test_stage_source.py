"""A source that changes while it is read is never sent half old and half new."""

import os

import pytest

from tpuctl.errors import IntegrityError, LocalIOError, PreconditionError
from tpuctl.models.transfer import FileIdentity, TransferFinished, TransferRefusal, TransferScope
from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
from tpuctl.operations.stage.plan.push_plan import plan_push
from tpuctl.operations.stage.plan.walk import Selection, walk_files
from tpuctl.operations.stage.transfer import push_files as stage_push
from tpuctl.operations.stage.transfer.push_files import UnchangingFile
from unit.operations.checkpoints.memory_bucket import MemoryBucket


@pytest.fixture
def bucket():
    return MemoryBucket()


def plan(source, bucket, **scope):
    return plan_push(str(source), bucket, "set", ChecksumCache(None), TransferScope(**scope))


def errors(events):
    return [
        type(event.error) for event in events if isinstance(event, TransferFinished) and event.error
    ]


def test_reading_on_after_a_change_is_refused(tmp_path):
    path = tmp_path / "growing"
    path.write_bytes(b"old" * 100)
    descriptor = os.open(path, os.O_RDONLY)
    with UnchangingFile(descriptor, FileIdentity.of(path.stat())) as file:
        assert file.read(10) == b"oldoldoldo"
        path.write_bytes(b"new" * 101)
        with pytest.raises(IntegrityError, match="changed while it was read"):
            file.read(10)
    os.close(descriptor)


@pytest.mark.parametrize("how", ["longer", "same size", "another file"])
def test_a_file_that_changed_since_the_plan_is_not_sent(tmp_path, bucket, how):
    path = tmp_path / "tree" / "a"
    path.parent.mkdir()
    path.write_bytes(b"seen")
    (tmp_path / "tree" / "b").write_bytes(b"fine")
    seen = plan(tmp_path / "tree", bucket)
    if how == "another file":
        (tmp_path / "new").write_bytes(b"seen")
        (tmp_path / "new").replace(path)
    else:
        path.write_bytes(b"other" if how == "longer" else b"SEEN")
        os.utime(path, ns=(1, 1))
    assert errors(stage_push.push(seen, bucket)) == [IntegrityError]
    assert list(bucket.bodies) == ["set/b"]


def test_a_file_that_is_gone_is_said(tmp_path, bucket):
    path = tmp_path / "a"
    path.write_bytes(b"seen")
    seen = plan(path, bucket)
    path.unlink()
    assert errors(stage_push.push(seen, bucket)) == [LocalIOError]


def test_an_object_that_changed_since_the_plan_is_left_alone(tmp_path, bucket):
    path = tmp_path / "a"
    path.write_bytes(b"mine")
    bucket.put("set", b"first")
    seen = plan(path, bucket)
    bucket.put("set", b"somebody else's")
    (failed,) = (
        event for event in stage_push.push(seen, bucket) if isinstance(event, TransferFinished)
    )
    assert isinstance(failed.error, PreconditionError)
    assert bucket.body("set") == b"somebody else's"


def test_both_sides_are_joined_in_the_order_of_names(tmp_path, bucket):
    names = ["a", "a-b", "a/b", "a/c/d", "a0", "b", "\u00e9", "\U0001f600"]
    for name in names:
        if name != "a":
            path = tmp_path / "tree" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())
            bucket.put(f"set/{name}", name.encode())
    bucket.put("set/zz", b"only there")
    seen = plan(tmp_path / "tree", bucket, delete=True)
    assert [one.is_current for one in seen.transfers] == [True] * 7
    assert [one.key for one in seen.deletions] == ["set/zz"]


def test_what_is_excluded_is_not_read_and_not_entered(tmp_path):
    for name in ("keep/a", "cache/b", "c.tmp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "cache").chmod(0)
    try:
        found = list(walk_files(str(tmp_path), Selection(exclude=["cache/", "*.tmp"])))
    finally:
        (tmp_path / "cache").chmod(0o700)
    assert [one[0] for one in found if not isinstance(one, TransferRefusal)] == ["keep/a"]
    assert not [one for one in found if isinstance(one, TransferRefusal)]
