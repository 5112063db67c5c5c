"""A copy that ends early: a full disk, Ctrl-C, kill -9. What is there is used by the next run."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from tpuctl.operations.stage.transfer import atomic_files
from tpuctl.operations.stage.transfer import push_files as stage_push

pytest_plugins = ("client.cli.data.data_fixtures",)

BUCKET = "gs://local-bucket"
MIB = 2**20


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "No space left on device"),
        (errno.EDQUOT, "Disk quota exceeded"),
        (errno.EACCES, "Permission denied"),
        (errno.EROFS, "Read-only file system"),
    ],
)
def test_what_the_disk_says_comes_before_any_checksum(
    tpuctl, three_files, tmp_path, monkeypatch, code, words
):
    def refused(*_arguments):
        raise OSError(code, os.strerror(code))

    tpuctl("data", "push", str(three_files / "a.txt"), f"{BUCKET}/a.txt")
    good = tmp_path / "good"
    good.write_text("good")
    monkeypatch.setattr(atomic_files.os, "pwrite", refused)
    result = tpuctl("data", "pull", f"{BUCKET}/a.txt", str(good))
    assert result.code == 60
    assert f"error: cannot write {good}: {words}" in result.err
    assert (good.read_text(), "checksum" in result.err) == ("good", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good", "tree"]


def test_a_pull_that_does_not_fit_is_refused_before_a_byte_is_written(
    tpuctl, three_files, tmp_path, monkeypatch
):
    tpuctl("data", "push", str(three_files), f"{BUCKET}/set")
    needed_bytes = sum(path.stat().st_size for path in three_files.rglob("*") if path.is_file())
    for free_bytes, code in ((needed_bytes - 1, 60), (needed_bytes, 0)):
        monkeypatch.setattr(atomic_files.TargetDirectory, "free_bytes", lambda _, n=free_bytes: n)
        result = tpuctl("data", "pull", f"{BUCKET}/set", str(tmp_path / "back"))
        assert result.code == code, result.err
        if code:
            amount = f"{needed_bytes / MIB:,.1f} MiB"
            assert result.err.splitlines()[-2:] == [
                f"error: cannot write {tmp_path}/back: {amount} are needed and {amount} are free",
                "hint: make room, or pull to another disk",
            ]
            assert list((tmp_path / "back").iterdir()) == []


def test_a_full_disk_is_one_file_s_matter_when_others_arrive(
    tpuctl, three_files, tmp_path, monkeypatch
):
    def full_for_large(descriptor, data, offset, write=os.pwrite):
        if offset + len(data) > 1000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data, offset)

    tpuctl("data", "push", str(three_files), f"{BUCKET}/set")
    monkeypatch.setattr(atomic_files.os, "pwrite", full_for_large)
    result = tpuctl("data", "pull", f"{BUCKET}/set", str(tmp_path / "back"))
    assert result.code == 70
    assert "No space left on device" in result.err
    arrived = sorted(path.name for path in (tmp_path / "back").rglob("*") if path.is_file())
    assert arrived == ["a.txt", "empty"]


def test_a_full_disk_ends_the_copy_before_every_object_was_fetched_for_nothing(
    tpuctl, tmp_path, monkeypatch
):
    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    root = tmp_path / "many"
    root.mkdir()
    for number in range(40):
        (root / f"{number:02}").write_text("x")
    tpuctl("data", "push", str(root), f"{BUCKET}/many")
    monkeypatch.setattr(atomic_files.os, "pwrite", full)
    result = tpuctl("data", "pull", f"{BUCKET}/many", str(tmp_path / "back"))
    assert result.code == 60
    assert result.err.count("warning: ") == 8
    assert result.err.splitlines()[-1].startswith("hint: make room, then run the same command")


def test_ctrl_c_says_how_to_go_on(tpuctl, three_files, monkeypatch):
    def interrupted(plan, bulk, push=stage_push.push):
        yield next(push(plan, bulk))
        raise KeyboardInterrupt

    monkeypatch.setattr(stage_push, "push", interrupted)
    result = tpuctl("data", "push", str(three_files), f"{BUCKET}/set")
    assert result.code == 130
    assert result.err.splitlines()[-1].endswith("run the same command again to copy the rest")
    monkeypatch.undo()
    again = tpuctl("data", "push", str(three_files), f"{BUCKET}/set", "-o", "json")
    assert again.json["objects_sent"] + again.json["objects_skipped"] == 3


@pytest.mark.parametrize("direction", ["push", "pull"])
def test_what_a_killed_process_copied_is_not_copied_again(
    tpuctl, cloud, local_bucket, tmp_path, direction
):
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(os.urandom(5 * MIB))
    if direction == "pull":
        assert tpuctl("data", "push", str(source), f"{BUCKET}/large").code == 0
    ends = (str(source), f"{BUCKET}/large") if direction == "push" else (f"{BUCKET}/large", back)
    environ = os.environ | {"TPUCTL_HOME": str(cloud.home), "DIES_AFTER": "2"}
    killed = subprocess.run(
        [sys.executable, "-c", DIES, "data", direction, *map(str, ends)],
        env=environ, capture_output=True, text=True,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not back.exists()
    result = subprocess.run(
        [sys.executable, "-c", COUNTS, "data", direction, *map(str, ends)],
        env=environ, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert int(result.stderr.splitlines()[-1]) <= 3  # of five parts
    assert local_bucket.get_blob("large").size == 5 * MIB
    assert [blob.name for blob in local_bucket.client.list_blobs(local_bucket)] == ["large"]
    if direction == "pull":
        assert back.read_bytes() == source.read_bytes()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "source"]


WATCH = """
import os, signal, sys, threading
from tpuctl.operations.stage.transfer import atomic_files as stage_files
from tpuctl.operations.stage.transfer import part_layout as stage_parts
from tpuctl.operations.stage.transfer import pull_objects as stage_pull
from tpuctl.operations.stage.transfer import push_files as stage_push
from tpuctl.store.gcs import bulk
for module in (stage_parts, stage_pull, stage_push):
    module.WHOLE_BYTES = 2**20  # smaller parts
turn, done, sent = threading.Lock(), [], []
def counted(made, seen):
    def call(*words, **more):
        found = made(*words, **more)
        with turn:
            seen.append(words)
            over(seen)
        return found
    return call
stage_files.UnfinishedFile.note = counted(stage_files.UnfinishedFile.note, done)
bulk.BulkBucket.upload = counted(bulk.BulkBucket.upload, done)
from tpuctl.cli.app import main
"""
DIES = (
    WATCH
    + """
def over(seen):
    if len(seen) == int(os.environ["DIES_AFTER"]):
        os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main(sys.argv[1:]))
"""
)
COUNTS = (
    WATCH
    + """
def over(seen):
    pass
code = main(sys.argv[1:])
print(len(done), file=sys.stderr)
sys.exit(code)
"""
)


def test_a_file_that_another_process_writes_is_locked(tpuctl, three_files, tmp_path):
    tpuctl("data", "push", str(three_files / "a.txt"), f"{BUCKET}/x")
    (row,) = tpuctl("data", "list", f"{BUCKET}/x", "-o", "json").json
    with atomic_files.TargetDirectory(str(tmp_path / "in")) as target:
        other = atomic_files.UnfinishedFile(target, "x", row["generation"])
        result = tpuctl("data", "pull", f"{BUCKET}/x", str(tmp_path / "in" / "x"))
        other.close()
    assert result.code == 61
    assert result.err.splitlines()[-2:] == [
        f"error: another process is writing {tmp_path / 'in' / 'x'}",
        "hint: when the other one is done, run the same command again",
    ]
