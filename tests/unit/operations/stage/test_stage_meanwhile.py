"""What happens to a copy while others are at work, and what it leaves behind."""

import pytest

from tpuctl.errors import IntegrityError, PermissionDeniedError, PreconditionError
from tpuctl.models.transfer import TransferFinished, TransferNotice, TransferProgress, TransferScope
from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
from tpuctl.operations.stage.plan.names import PARTS_PREFIX
from tpuctl.operations.stage.plan.pull_plan import plan_pull
from tpuctl.operations.stage.plan.push_plan import plan_push
from tpuctl.operations.stage.transfer import part_layout as stage_parts
from tpuctl.operations.stage.transfer import pull_objects as stage_pull
from tpuctl.operations.stage.transfer import push_files as stage_push
from tpuctl.operations.stage.transfer.part_layout import parts_prefix
from unit.operations.checkpoints.memory_bucket import MemoryBucket

LARGE = bytes(range(200)) * 50
"""10 parts of 1,000 bytes, when parts are that small."""


@pytest.fixture(autouse=True)
def parts_of_a_thousand_bytes(monkeypatch):
    monkeypatch.setattr(stage_parts, "_STREAMS", 100)
    monkeypatch.setattr(stage_parts, "part_bytes", lambda _: 1000)
    for module in (stage_push, stage_pull):
        monkeypatch.setattr(module, "WHOLE_BYTES", 1000)


@pytest.fixture
def box():
    return MemoryBucket()


def plan(path, bucket):
    return plan_push(str(path), bucket, "x", ChecksumCache(None), TransferScope())


def finished(events):
    (one,) = (event for event in events if isinstance(event, TransferFinished))
    return one


def notices(events):
    return [event.text for event in events if isinstance(event, TransferNotice)]


@pytest.mark.parametrize("body", [b"small", LARGE], ids=["whole", "in parts"])
@pytest.mark.parametrize("deletes_are_free", [True, False])
def test_the_same_bytes_from_somebody_else_are_there(tmp_path, body, deletes_are_free):
    bucket = MemoryBucket(deletes_are_free=deletes_are_free)
    path = tmp_path / "f"
    path.write_bytes(body)
    seen = plan(path, bucket)
    theirs = bucket.put("x", body)
    assert finished(stage_push.push(seen, bucket)) == TransferFinished(
        seen.transfers[0], was_there=True
    )
    assert {key: generation for key, (generation, _) in bucket.bodies.items()} == {"x": theirs}


def test_of_two_large_pushes_of_the_same_at_once_none_fails(box, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(LARGE)
    theirs, ours = plan(path, box), plan(path, box)
    box.once["compose"] = lambda _: list(stage_push.push(theirs, box))  # which removes the parts
    assert finished(stage_push.push(ours, box)).was_there
    assert list(box.bodies) == ["x"]


@pytest.mark.parametrize("body", [b"small", LARGE], ids=["whole", "in parts"])
def test_other_bytes_of_the_same_size_are_somebody_else_s(box, tmp_path, body):
    path = tmp_path / "f"
    path.write_bytes(body)
    seen = plan(path, box)
    box.put("x", body[::-1])
    error = finished(stage_push.push(seen, box)).error
    assert isinstance(error, PreconditionError)
    assert str(error) == "gs://box/x was written by somebody else meanwhile"


def test_parts_that_may_not_be_removed_are_told_once_and_go_with_the_next_push(box, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(LARGE)

    def denied(key):
        raise PermissionDeniedError(f"gs://box/{key}: no")

    box.before["delete"] = denied
    events = list(stage_push.push(plan(path, box), box))
    assert finished(events).error is None
    why = "parts of finished uploads stay in gs://box/tpuctl/parts/, billed as what is stored: no"
    assert notices(events) == [f"10 {why}"]
    assert notices(stage_push.push(plan(path, box), box)) == [f"10 {why}"]
    box.before.clear()
    box.put(f"{parts_prefix('another')}0-3-00000000", b"new")  # of a push that goes on
    assert list(stage_push.push(plan(path, box), box)) == []
    assert [key for key in box.bodies if key.startswith(PARTS_PREFIX)] == [
        f"{parts_prefix('another')}0-3-00000000"
    ]


def test_a_part_that_fails_is_told_as_the_object(box, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(LARGE)

    def denied(key):
        raise PermissionDeniedError(f"gs://box/{key}: no access to box/{key}.", hint="ask")

    box.before["upload"] = denied
    error = finished(stage_push.push(plan(path, box), box)).error
    assert (str(error), error.hint) == ("gs://box/x: no access to box/x.", "ask")


def pulled(bucket, target):
    """The error of a pull of x, the bytes that were counted, and the requests it took."""
    events = list(
        stage_pull.pull(
            plan_pull(bucket, "x", str(target), ChecksumCache(None), TransferScope()), bucket
        )
    )
    counted = sum(event.size_bytes for event in events if isinstance(event, TransferProgress))
    return finished(events).error, counted, len(bucket.sent("download"))


def damaging(bucket, starts):
    """Damage the ranges that start there, once for each time they are named."""
    honest = bucket.download

    def download(key, generation, start, end, write):
        if start in starts:
            starts.remove(start)
            honest(key, generation, start, end, lambda block: write(bytes(len(block))))
        else:
            honest(key, generation, start, end, write)

    bucket.download = download


def test_a_range_that_was_damaged_on_the_way_is_fetched_again(box, tmp_path):
    box.put("x", LARGE)
    damaging(box, [2000])
    # The third range is found by fetching the first three again.
    assert pulled(box, tmp_path / "f") == (None, len(LARGE), 10 + 3)
    assert (tmp_path / "f").read_bytes() == LARGE
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_bytes_that_are_damaged_each_time_are_fetched_twice_and_kept_by_no_name(box, tmp_path):
    box.put("x", LARGE)
    damaging(box, [9000, 9000])
    error, _, requests = pulled(box, tmp_path / "f")
    assert isinstance(error, IntegrityError)
    assert (requests, list(tmp_path.iterdir())) == (20, [])
