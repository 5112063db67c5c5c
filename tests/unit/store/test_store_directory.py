"""What only a directory has: names that are paths, crashes, other hands, other processes."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tpuctl.errors import (
    IntegrityError,
    LocalIOError,
    NotFoundError,
    PreconditionError,
    RefusedError,
)
from tpuctl.store import crc32c, open_store


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
    assert (entry.key, entry.size_bytes, entry.crc32c) == ("data/x.csv", 3, crc32c(b"1,2"))
    assert store.put_if_generation("data/x.csv", b"3", entry.generation).size_bytes == 1


def test_bytes_that_changed_at_rest_are_found(store, tmp_path):
    store.put_if_absent("a", b"x" * 1000)
    path = tmp_path / "objects" / "a"
    time_ns = path.stat().st_mtime_ns
    path.write_bytes(b"y" + b"x" * 999)
    os.utime(path, ns=(time_ns, time_ns))
    with pytest.raises(IntegrityError):
        store.get_range("a")


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


def test_processes_that_count_together_lose_nothing(store):
    store.put_if_absent("count", b"0")
    command = [sys.executable, "-c", COUNTER, store.url]
    writers = [subprocess.Popen(command, cwd=Path(__file__).parents[3]) for _ in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert store.get_range("count") == b"75"


def test_what_a_killed_writer_left_is_no_object_and_is_removed(store, tmp_path):
    endless = (
        "import io, os, signal, sys; from tpuctl.store import open_store\n"
        "class Deadly(io.BytesIO):\n"
        "    reads = 0\n"
        "    def read(self, size=-1):\n"
        "        self.reads += 1\n"
        "        if self.reads == 4: os.kill(os.getpid(), signal.SIGKILL)\n"
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
        passes = 0

        def seek(self, place):
            self.passes += 1
            return super().seek(place)

        def read(self, size=-1):
            if self.passes == 2:
                raise OSError(28, "No space left on device")
            return super().read(size)

    with pytest.raises(LocalIOError, match="No space left on device"):
        store.put_if_absent("a", Failing())
    assert list((tmp_path / "objects" / ".tpuctl-store" / "writing").iterdir()) == []
    store.put_if_absent("a", b"1")
    with pytest.raises(PreconditionError):
        store.put_if_absent("a", Failing())
