"""Large objects in parts: what is there is not sent twice, and one of two wins."""

import errno
import os

import pytest

from tpuctl.errors import (
    IntegrityError,
    LocalIOError,
    LockedError,
    PreconditionError,
    TransientError,
)
from tpuctl.models.transfer import TransferFinished, TransferProgress, TransferScope
from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
from tpuctl.operations.stage.plan.names import PARTS_PREFIX
from tpuctl.operations.stage.plan.pull_plan import plan_pull
from tpuctl.operations.stage.plan.push_plan import plan_push
from tpuctl.operations.stage.transfer import part_layout as stage_parts
from tpuctl.operations.stage.transfer import pull_objects as stage_pull
from tpuctl.operations.stage.transfer import push_files as stage_push
from tpuctl.operations.stage.transfer.atomic_files import TargetDirectory, UnfinishedFile
from tpuctl.operations.stage.transfer.part_layout import part_bytes, parts_prefix, ranges
from unit.operations.checkpoints.memory_bucket import MemoryBucket

MIB = 2**20
BODY = b"".join(bytes([number]) * 1000 for number in range(100))
"""100 parts of 1,000 bytes each, all different, when parts are that small."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of a thousand bytes, each fetched by a request of its own."""
    monkeypatch.setattr(stage_parts, "_STREAMS", 100)
    monkeypatch.setattr(stage_parts, "part_bytes", lambda _: 1000)
    for module in (stage_push, stage_pull):
        monkeypatch.setattr(module, "WHOLE_BYTES", 1000)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(BODY)
    return path


@pytest.fixture
def bucket():
    return MemoryBucket()


def plan(source, bucket):
    return plan_push(str(source), bucket, "big", ChecksumCache(None), TransferScope())


def outcome(events):
    """The error of the only transfer (None: it succeeded), and the bytes that were counted."""
    events = list(events)
    (finished,) = (event for event in events if isinstance(event, TransferFinished))
    return finished.error, sum(event[0] for event in events if isinstance(event, TransferProgress))


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [(8 * MIB + 1, 8 * MIB), (256 * MIB, 8 * MIB), (256 * MIB + 1, 9 * MIB)]
    + [(2048 * MIB, 64 * MIB), (2048 * MIB + 1, 64 * MIB), (10**13, 64 * MIB)],
)
def test_parts_are_a_32nd_between_8_and_64_mib(size_bytes, expected):
    assert part_bytes(size_bytes) == expected


def test_ranges_cover_an_object_once():
    assert list(ranges(2500)) == [(0, 1000), (1000, 2000), (2000, 2500)]


def test_parts_become_the_object_and_are_gone(bucket, source):
    assert outcome(stage_push.push(plan(source, bucket), bucket)) == (None, len(BODY))
    assert list(bucket.bodies) == ["big"]
    assert bucket.body("big") == BODY
    # 100 parts become 4 objects of up to 32, and those the whole.
    assert (len(bucket.sent("upload")), len(bucket.sent("compose"))) == (100, 5)


def test_a_second_process_sends_what_is_missing(bucket, source):
    def dead(_key):
        if len(bucket.sent()) > 60:
            raise TransientError("the network is gone")

    bucket.before["upload"] = dead
    error, _ = outcome(stage_push.push(plan(source, bucket), bucket))
    assert isinstance(error, TransientError)
    there = len(bucket.bodies)
    bucket.before.clear()
    bucket.calls.clear()
    assert outcome(stage_push.push(plan(source, bucket), bucket)) == (None, len(BODY))
    assert len(bucket.sent()) == 100 - there
    assert bucket.body("big") == BODY


def test_a_part_of_other_bytes_is_not_used_again(bucket, source):
    bucket.before["compose"] = failing(TransientError("later"))
    outcome(stage_push.push(plan(source, bucket), bucket))
    bucket.before.clear()
    bucket.calls.clear()
    source.write_bytes(b"!" + BODY[1:])
    assert outcome(stage_push.push(plan(source, bucket), bucket))[0] is None
    assert len(bucket.sent()) == 1
    assert bucket.body("big") == b"!" + BODY[1:]
    assert list(bucket.bodies) == ["big"]


def test_of_two_pushers_the_slower_one_says_so(bucket, source, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(BODY[::-1])
    theirs, ours = plan(other, bucket), plan(source, bucket)

    def they_are_faster(_key):
        assert outcome(stage_push.push(theirs, bucket))[0] is None

    bucket.once["compose"] = they_are_faster
    error, _ = outcome(stage_push.push(ours, bucket))
    assert isinstance(error, PreconditionError)
    assert "somebody else" in str(error)
    assert bucket.body("big") == BODY[::-1]


def test_parts_that_somebody_took_for_leftovers_are_sent_again(bucket, source):
    def swept(_key):
        for part in [one for one in bucket.bodies if one.startswith(parts_prefix("big"))][:3]:
            del bucket.bodies[part]

    bucket.once["compose"] = swept
    error, counted = outcome(stage_push.push(plan(source, bucket), bucket))
    assert (error, counted) == (None, len(BODY))
    assert bucket.body("big") == BODY


def test_leftovers_go_when_the_object_is_whole(bucket, source):
    left = f"{parts_prefix('big')}0-3-00000000"
    foreign = f"{parts_prefix('another')}0-3-00000000"
    bucket.put(left, b"old")
    bucket.put(foreign, b"old")
    bucket.put("big", BODY)
    assert list(stage_push.push(plan(source, bucket), bucket)) == []
    assert sorted(bucket.bodies) == ["big", foreign]


def test_a_part_of_a_request_that_was_given_up_and_arrives_late_is_removed(bucket, source):
    def late(_key):  # the object has been composed, and is looked at before its parts are removed
        if "big" in bucket.bodies:
            part = bucket.sent()[0]
            generation, data = bucket.bodies.pop(part)
            bucket.put(part, data)

    bucket.before["head"] = late
    assert outcome(stage_push.push(plan(source, bucket), bucket)) == (None, len(BODY))
    assert list(bucket.bodies) == ["big"]


def test_parts_of_another_s_newer_push_stay_a_week(bucket, source):
    bucket.put("big", BODY)
    stale, stream = f"{parts_prefix('big')}0-3-00000000", f"{PARTS_PREFIX}stream-0123/00000000"
    bucket.put(stale, b"old")
    bucket.put(stream, b"old")
    bucket.pass_by(7 * 24 * 3600 - 10)
    fresh = f"{parts_prefix('big')}0-3-00000001"
    bucket.put(fresh, b"new")
    assert list(stage_push.push(plan(source, bucket), bucket)) == []
    assert sorted(bucket.bodies) == sorted(["big", stale, stream, fresh])
    bucket.pass_by(10)
    bucket.put(fresh, b"new")
    assert list(stage_push.push(plan(source, bucket), bucket)) == []
    assert sorted(bucket.bodies) == ["big", fresh]


def test_leftovers_that_cannot_be_listed_are_no_failure(bucket, source):
    bucket.before["list"] = lambda prefix: prefix == PARTS_PREFIX and fail()
    assert outcome(stage_push.push(plan(source, bucket), bucket)) == (None, len(BODY))
    assert list(bucket.bodies) == ["big"]


def test_a_file_that_changes_between_two_parts_is_not_sent(bucket, source):
    bucket.once["upload"] = lambda _: source.write_bytes(BODY + b"more")
    error, _ = outcome(stage_push.push(plan(source, bucket), bucket))
    assert isinstance(error, IntegrityError)
    assert "big" not in bucket.bodies


def test_where_parts_would_cost_money_it_goes_in_one_piece(source):
    bucket = MemoryBucket(deletes_are_free=False)
    assert outcome(stage_push.push(plan(source, bucket), bucket)) == (None, len(BODY))
    assert (bucket.sent(), bucket.sent("upload_resumable")) == ([], ["big"])


def pull_plan(bucket, target):
    return plan_pull(bucket, "big", str(target), ChecksumCache(None), TransferScope())


def test_ranges_become_the_file(bucket, tmp_path):
    bucket.put("big", BODY)
    assert outcome(stage_pull.pull(pull_plan(bucket, tmp_path / "f"), bucket)) == (None, len(BODY))
    assert (tmp_path / "f").read_bytes() == BODY
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_second_process_fetches_what_is_missing_and_what_rotted(bucket, tmp_path):
    bucket.put("big", BODY)
    bucket.before["download"] = lambda _: len(bucket.sent("download")) > 60 and fail()
    error, _ = outcome(stage_pull.pull(pull_plan(bucket, tmp_path / "f"), bucket))
    assert isinstance(error, TransientError)
    assert not (tmp_path / "f").exists()
    unfinished, journal = sorted(tmp_path.iterdir())
    done = len(journal.read_text().splitlines())
    with unfinished.open("r+b") as file:
        file.seek(500)
        file.write(b"rot")
    bucket.before.clear()
    bucket.calls.clear()
    assert outcome(stage_pull.pull(pull_plan(bucket, tmp_path / "f"), bucket)) == (None, len(BODY))
    assert len(bucket.sent("download")) == 100 - done + 1
    assert (tmp_path / "f").read_bytes() == BODY
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_one_request_fetches_the_missing_parts_between_two_that_are_there(
    bucket, tmp_path, monkeypatch
):
    bucket.put("big", BODY)
    bucket.before["download"] = lambda _: len(bucket.sent("download")) > 60 and fail()
    outcome(stage_pull.pull(pull_plan(bucket, tmp_path / "f"), bucket))
    _, journal = sorted(tmp_path.iterdir())
    noted = {int(line.split()[0]) for line in journal.read_text().splitlines()}
    kept = [line for line in journal.read_text().splitlines() if line.startswith(("0 ", "30000 "))]
    assert noted >= {0, 30000}
    journal.write_text("\n".join(kept) + "\n")
    bucket.before.clear()
    bucket.calls.clear()
    monkeypatch.setattr(stage_parts, "_STREAMS", 1)
    assert outcome(stage_pull.pull(pull_plan(bucket, tmp_path / "f"), bucket)) == (None, len(BODY))
    assert len(bucket.sent("download")) == 2
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_journal_that_is_damaged_is_not_believed(bucket, tmp_path):
    bucket.put("big", BODY)
    bucket.before["download"] = lambda _: len(bucket.sent("download")) > 60 and fail()
    outcome(stage_pull.pull(pull_plan(bucket, tmp_path / "f"), bucket))
    _, journal = sorted(tmp_path.iterdir())
    journal.write_bytes(b"0 1000 zzzzzzzz\n\xff\xff 12\n0 99999999999999999999 00000000\n1000 20")
    bucket.before.clear()
    assert outcome(stage_pull.pull(pull_plan(bucket, tmp_path / "f"), bucket))[0] is None
    assert (tmp_path / "f").read_bytes() == BODY


def test_an_object_that_was_replaced_meanwhile_leaves_the_old_file(bucket, tmp_path):
    (tmp_path / "f").write_bytes(b"good")
    bucket.put("big", BODY)
    seen = pull_plan(bucket, tmp_path / "f")
    bucket.put("big", BODY[::-1])
    error, _ = outcome(stage_pull.pull(seen, bucket))
    assert isinstance(error, PreconditionError)
    assert (tmp_path / "f").read_bytes() == b"good"


def test_what_an_older_object_left_unfinished_is_removed(bucket, tmp_path):
    bucket.put("big", BODY)
    bucket.before["download"] = lambda _: len(bucket.sent("download")) > 60 and fail()
    outcome(stage_pull.pull(pull_plan(bucket, tmp_path / "f"), bucket))
    bucket.before.clear()
    bucket.put("big", BODY[::-1])
    assert outcome(stage_pull.pull(pull_plan(bucket, tmp_path / "f"), bucket))[0] is None
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_disk_that_is_too_small_is_said_at_once_and_keeps_nothing(bucket, tmp_path, monkeypatch):
    def full(_descriptor, _start, _size_bytes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    bucket.put("big", BODY)
    error, _ = outcome(stage_pull.pull(pull_plan(bucket, tmp_path / "f"), bucket))
    assert isinstance(error, LocalIOError)
    assert (bucket.sent("download"), list(tmp_path.iterdir())) == ([], [])


def test_a_file_that_was_let_go_of_is_not_written_to(tmp_path):
    with TargetDirectory(str(tmp_path)) as target:
        file = UnfinishedFile(target, "f", "1")
        file.close()
        with (tmp_path / "other").open("w+b") as other:  # gets the number of the first
            with pytest.raises(LocalIOError):
                file.write_at(b"late", 0)
            assert other.read() == b""


def test_two_processes_do_not_write_one_file(bucket, tmp_path):
    bucket.put("big", BODY)
    seen = pull_plan(bucket, tmp_path / "f")
    errors = []

    bucket.once["download"] = lambda _: errors.append(outcome(stage_pull.pull(seen, bucket))[0])
    assert outcome(stage_pull.pull(seen, bucket))[0] is None
    assert [type(error) for error in errors] == [LockedError]
    assert (tmp_path / "f").read_bytes() == BODY


def fail():
    raise TransientError("the network is gone")


def failing(error):
    def fail_with(_key):
        raise error

    return fail_with
