"""What only a directory has: names that are paths, crashes, other hands, other processes."""

import fcntl
import io
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tpuctl.errors import (
    IntegrityError,
    LocalIOError,
    LockedError,
    NotFoundError,
    PreconditionError,
    RefusedError,
)
from tpuctl.store import crc32c, directory, durable_files, open_store


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "objects"))


@pytest.mark.parametrize(
    "key",
    ["../a", "a/../../b", "/etc/passwd", "", "a//b", "a/", "./a", "a/.", ".tpuctl-store/lock"],
)
def test_a_key_that_would_escape_is_refused(store, key):
    for call in (store.get_range, store.head, store.delete):
        with pytest.raises(RefusedError):
            call(key)
    with pytest.raises(RefusedError):
        store.put_if_absent(key, b"1")


def test_a_link_that_leads_out_is_refused(store, tmp_path):
    store.put_if_absent("a", b"1")
    (tmp_path / "outside").mkdir()
    (tmp_path / "objects" / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(RefusedError):
        store.put_if_absent("link/b", b"1")
    assert list((tmp_path / "outside").iterdir()) == []


def test_reading_makes_nothing(store, tmp_path):
    assert (store.head("a"), list(store.list()), store.delete("a")) == (None, [], False)
    assert not (tmp_path / "objects").exists()


def test_a_file_from_other_hands_is_an_object(store, tmp_path):
    (tmp_path / "objects" / "data").mkdir(parents=True)
    (tmp_path / "objects" / "data" / "x.csv").write_bytes(b"1,2")
    (entry,) = store.list()
    assert (entry.key, entry.size_bytes, entry.crc32c) == ("data/x.csv", 3, "")
    assert store.head("data/x.csv") == replace(entry, crc32c=crc32c(b"1,2"))
    assert store.put_if_generation("data/x.csv", b"3", entry.generation).size_bytes == 1


def test_bytes_that_changed_at_rest_are_found(store, tmp_path):
    store.put_if_absent("a", b"x" * 1000)
    path = tmp_path / "objects" / "a"
    time_ns = path.stat().st_mtime_ns
    path.write_bytes(b"y" + b"x" * 999)
    os.utime(path, ns=(time_ns, time_ns))
    with pytest.raises(IntegrityError):
        store.get_range("a")


def test_a_checksum_that_rotted_says_nothing_of_its_object(store, tmp_path):
    entry = store.put_if_absent("a", b"x" * 1000)
    (path,) = (tmp_path / "objects" / ".tpuctl-store" / "crc32c").iterdir()
    written = path.read_bytes()
    for bit in range(8 * len(written)):
        rotten = bytearray(written)
        rotten[bit // 8] ^= 1 << bit % 8
        path.write_bytes(rotten)
        assert list(store.list()) == [replace(entry, crc32c="")]
    assert store.get_range("a") == b"x" * 1000
    assert store.head("a") == entry


def test_a_generation_moves_on_when_the_clock_stands_still(store, tmp_path):
    ahead_ns = 4_000_000_000_000_000_000
    store.put_if_absent("a", b"1")
    (tmp_path / "objects" / ".tpuctl-store" / "lock").write_bytes(ahead_ns.to_bytes(8, "big"))
    given = [store.put_if_absent(key, b"").generation for key in ("b", "c", "d")]
    assert given == [ahead_ns + 1, ahead_ns + 2, ahead_ns + 3]


def test_a_deletion_takes_its_empty_directories_along(store, tmp_path):
    store.put_if_absent("step/a/shard", b"1")
    store.put_if_absent("step/COMMIT", b"1")
    store.delete("step/a/shard")
    assert sorted(path.name for path in (tmp_path / "objects" / "step").iterdir()) == ["COMMIT"]


def test_an_object_below_an_object_is_an_error_of_this_machine(store):
    store.put_if_absent("a", b"1")
    with pytest.raises(LocalIOError):
        store.put_if_absent("a/b", b"1")
    assert store.head("a/b") is None
    with pytest.raises(NotFoundError):
        store.get_range("a/b")


COUNTER = """
import sys
from tpuctl.errors import NotFoundError, PreconditionError
from tpuctl.store import open_store
store = open_store(sys.argv[1])
count = 0
while count < 25:
    try:
        entry = store.head("count")
        total = int(store.get_range("count", generation=entry.generation))
        store.put_if_generation("count", str(total + 1).encode(), entry.generation)
        count += 1
    except (NotFoundError, PreconditionError):
        continue
"""


@pytest.mark.system
def test_processes_that_count_together_lose_nothing(store):
    store.put_if_absent("count", b"0")
    command = [sys.executable, "-c", COUNTER, store.url]
    writers = [subprocess.Popen(command, cwd=Path(__file__).parents[3]) for _ in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert store.get_range("count") == b"75"


@pytest.mark.system
def test_what_a_killed_writer_left_is_no_object_and_is_removed(store, tmp_path):
    endless = (
        "import io, os, signal, sys; from tpuctl.store import open_store\n"
        "class Deadly(io.BytesIO):\n"
        "    reads = 0\n"
        "    def read(self, size=-1):\n"
        "        self.reads += 1\n"
        "        if self.reads == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return super().read(size)\n"
        "open_store(sys.argv[1]).put_if_absent('a', Deadly(bytes(2**20)))\n"
    )
    writer = subprocess.run(
        [sys.executable, "-c", endless, store.url], cwd=Path(__file__).parents[3]
    )
    writing = tmp_path / "objects" / ".tpuctl-store" / "writing"
    assert writer.returncode == -9
    assert [path.stat().st_size > 0 for path in writing.iterdir()] != []
    assert (list(store.list()), store.head("a")) == ([], None)
    store.put_if_absent("a", b"1")
    assert list(writing.iterdir()) == []


def test_a_writer_that_fails_leaves_nothing(store, tmp_path):
    class Failing(io.BytesIO):
        def read(self, size=-1):
            if self.tell():
                raise OSError(28, "No space left on device")
            return super().read(size // 2)

    with pytest.raises(LocalIOError, match="No space left on device"):
        store.put_if_absent("a", Failing(bytes(2**20)))
    assert list((tmp_path / "objects" / ".tpuctl-store" / "writing").iterdir()) == []
    store.put_if_absent("a", b"1")
    with pytest.raises(PreconditionError):
        store.put_if_absent("a", Failing(bytes(2**20)))


def test_different_keys_are_written_at_once(store):
    """Each source waits for the bytes of the other: one after the other would never end."""
    begun = threading.Barrier(2)

    class Meeting(io.BytesIO):
        def read(self, size=-1):
            begun.wait(10)
            return super().read(size)

    with ThreadPoolExecutor(2) as pool:
        entries = list(pool.map(lambda key: store.put_if_absent(key, Meeting(b"1")), "ab"))
    assert [entry.key for entry in entries] == ["a", "b"]


def test_of_two_who_write_one_key_at_once_one_is_refused(store):
    begun = threading.Barrier(2)

    class Meeting(io.BytesIO):
        def read(self, size=-1):
            begun.wait(10)
            return super().read(size)

    def put(data):
        try:
            return store.put_if_absent("a", Meeting(data))
        except PreconditionError:
            return None

    with ThreadPoolExecutor(2) as pool:
        (entry,) = [entry for entry in pool.map(put, (b"1", b"2")) if entry]
    assert store.head("a") == entry


def test_nobody_waits_for_ever_for_who_stands_still(store, tmp_path, monkeypatch):
    monkeypatch.setattr(durable_files, "_PATIENCE_S", 0.01)
    store.put_if_absent("a", b"1")
    lock = tmp_path / "objects" / ".tpuctl-store" / "lock"
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LockedError, match=f"process {os.getpid()} has held .*lock for"):
            store.delete("a")
    assert store.delete("a")


def test_a_child_that_was_forked_meanwhile_does_not_hold_the_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(durable_files, "_PATIENCE_S", 0.01)
    lock = durable_files.StoreLock(tmp_path / "lock")
    with lock.held() as descriptor:
        of_child = os.dup(descriptor)
    with lock.held():
        pass
    os.close(of_child)


def test_a_file_system_without_locks_is_refused(store, monkeypatch):
    def failing(descriptor, operation):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", failing)
    with pytest.raises(LocalIOError, match="has no locks: Operation not supported"):
        store.put_if_absent("a", b"1")


def test_a_file_system_that_rounds_times_is_refused(store, tmp_path, monkeypatch):
    utime = os.utime
    monkeypatch.setattr(
        os, "utime", lambda file, ns: utime(file, ns=tuple(time // 10**7 * 10**7 for time in ns))
    )
    (tmp_path / "objects" / ".tpuctl-store").mkdir(parents=True)
    last_ns = 4_000_000_000_000_000_000
    (tmp_path / "objects" / ".tpuctl-store" / "lock").write_bytes(last_ns.to_bytes(8, "big"))
    with pytest.raises(LocalIOError, match="does not keep times to the nanosecond"):
        store.put_if_absent("a", b"1")
    assert store.head("a") is None


def test_bytes_are_durable_before_they_have_a_name_and_the_name_before_the_answer(
    store, tmp_path, monkeypatch
):
    store.put_if_absent("step/a", b"1")
    steps = []
    fsync, rename = os.fsync, Path.replace

    def synced(descriptor):
        steps.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink().parent.name))
        fsync(descriptor)

    def replaced(path, target):
        steps.append(("name", Path(target).name))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    store.put_if_absent("step/b", b"1")
    assert steps == [("sync", "writing"), ("name", "b"), ("sync", "objects")]


def test_a_list_reads_no_file_that_other_hands_put_there(store, tmp_path, monkeypatch):
    store.put_if_absent("a", b"1")
    (tmp_path / "objects" / "huge").write_bytes(b"2")
    (tmp_path / "objects" / "link").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(directory, "measure_source", None)
    assert [(entry.key, entry.crc32c) for entry in store.list()] == [
        ("a", crc32c(b"1")),
        ("huge", ""),
    ]


def test_what_a_disk_cannot_read_is_damaged():
    """The memory of this process is a file whose first bytes Linux cannot read: EIO."""
    memory = open_store("/proc/self")
    generation = Path("/proc/self/mem").stat().st_mtime_ns
    with pytest.raises(IntegrityError, match="mem: Input/output error"):
        memory.get_range("mem", 0, 1)
    with pytest.raises(IntegrityError, match="mem: Input/output error"):
        memory.read_into("mem", 0, memoryview(bytearray(1)), generation=generation)


def test_a_buffer_is_filled_through_no_link_that_leads_out(store, tmp_path):
    store.put_if_absent("a", b"1")
    (tmp_path / "secret").write_bytes(b"2")
    generation = (tmp_path / "secret").stat().st_mtime_ns
    (tmp_path / "objects" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(RefusedError):
        store.read_into("link", 0, memoryview(bytearray(1)), generation=generation)
