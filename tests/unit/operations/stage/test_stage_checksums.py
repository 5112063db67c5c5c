"""What a file held when it was last read: believed while nothing speaks against it."""

import os
import sqlite3

import google_crc32c
import pytest

from tpuctl.errors import IntegrityError
from tpuctl.models.transfer import FileIdentity
from tpuctl.operations.stage.plan import checksum_cache as stage_checksums
from tpuctl.operations.stage.plan.checksum_cache import SETTLED_NS, ChecksumCache


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"first")
    return path


@pytest.fixture
def reads(monkeypatch):
    """How often a file was read."""
    seen = []
    real = stage_checksums.checksum
    monkeypatch.setattr(
        stage_checksums, "checksum", lambda *range_: seen.append(range_) or real(*range_)
    )
    return seen


def identity(path):
    return FileIdentity.of(path.stat())


def cache(tmp_path, *, later_ns=10 * SETTLED_NS):
    """A cache whose clock is so much later than the files."""
    return ChecksumCache(
        tmp_path / "cache", now_ns=lambda: identity(tmp_path / "file").ctime_ns + later_ns
    )


def read(checksums, path):
    try:
        return checksums.of(str(path), identity(path))
    finally:
        checksums.close()


def test_a_file_is_read_once(tmp_path, file, reads):
    values = [read(cache(tmp_path), file) for _ in range(3)]
    assert values == [google_crc32c.value(b"first")] * 3
    assert len(reads) == 1


def test_a_file_that_changed_is_read_again(tmp_path, file, reads):
    read(cache(tmp_path), file)
    os.utime(file, ns=(1, 1))  # which also moves the time of its last change
    file.write_bytes(b"other")
    assert read(cache(tmp_path), file) == google_crc32c.value(b"other")


def test_a_file_that_had_just_changed_is_not_remembered(tmp_path, file, reads):
    for _ in range(2):
        read(cache(tmp_path, later_ns=SETTLED_NS), file)
    assert len(reads) == 2


def test_without_a_directory_nothing_is_remembered(tmp_path, file):
    assert read(ChecksumCache(None), file) == google_crc32c.value(b"first")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nobody_else_may_read_it(tmp_path, file):
    read(cache(tmp_path), file)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "cache" / "checksums.sqlite").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "damage", [b"not a database at all" * 100, b"SQLite format 3\0" + b"x" * 99]
)
def test_a_damaged_one_is_thrown_away(tmp_path, file, damage, reads):
    (tmp_path / "cache").mkdir()
    path = tmp_path / "cache" / "checksums.sqlite"
    path.write_bytes(damage)
    for _ in range(3):
        assert read(cache(tmp_path), file) == google_crc32c.value(b"first")
    assert len(reads) == 2  # the first time without a cache


def test_one_that_is_locked_is_done_without(tmp_path, file, monkeypatch):
    read(cache(tmp_path), file)
    other = sqlite3.connect(tmp_path / "cache" / "checksums.sqlite", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(stage_checksums, "_PATIENCE_S", 0.01)
    try:
        assert read(cache(tmp_path), file) == google_crc32c.value(b"first")
    finally:
        other.close()


def test_one_in_a_place_that_cannot_be_written_is_done_without(tmp_path, file):
    (tmp_path / "cache").write_text("a file")
    assert read(cache(tmp_path), file) == google_crc32c.value(b"first")


def test_another_file_of_the_name_is_not_the_one_that_was_seen(tmp_path, file):
    seen = identity(file)
    (tmp_path / "new").write_bytes(b"first")
    (tmp_path / "new").replace(file)
    with pytest.raises(IntegrityError, match="changed while it was read"):
        ChecksumCache(None).of(str(file), seen)
