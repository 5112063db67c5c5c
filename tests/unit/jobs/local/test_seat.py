"""The seat of a supervisor: who holds it, how it is asked for, and how its holder is ended."""

import fcntl
import os
import subprocess
import sys
import threading

import pytest

from tpuctl.errors import LockedError
from tpuctl.jobs.local import seat

SITTING = """
import signal, sys
from pathlib import Path
from tpuctl.jobs.local import seat

signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True) or {then})
with seat.taken(Path(sys.argv[1]), "here"):
    print("seated", flush=True)
    while True:
        signal.pause()
"""


@pytest.fixture
def sit(tmp_path):
    """`sit(then)`: a process in the seat that does `then` when it gets SIGTERM."""
    started = []

    def start(then: str) -> subprocess.Popen:
        argv = [sys.executable, "-c", SITTING.format(then=then), str(tmp_path)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "seated\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def lock_file(home):
    return home / "supervisors" / "here.lock"


def test_the_holder_is_in_the_locked_file_and_no_longer_than_it_holds_it(tmp_path):
    with seat.taken(tmp_path, "here") as name:
        assert lock_file(tmp_path).read_text() == f"{name}\n{os.getpid()}\n"
        assert seat.holder(tmp_path, "here") == os.getpid()
    assert lock_file(tmp_path).read_text() == f"{name}\n"
    assert (seat.name(tmp_path, "here"), seat.holder(tmp_path, "here")) == (name, None)


def test_a_killed_holders_process_is_not_taken_for_the_next(tmp_path, sit):
    process = sit("None")
    assert seat.holder(tmp_path, "here") == process.pid
    process.kill()
    process.wait()
    assert lock_file(tmp_path).read_text().split()[1] == str(process.pid)
    assert seat.holder(tmp_path, "here") is None
    seat.end(tmp_path, "here")  # and nobody else gets a signal


def test_who_only_asks_keeps_nobody_out(tmp_path):
    with seat.taken(tmp_path, "here"):
        pass
    with lock_file(tmp_path).open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not seat.is_taken(tmp_path, "here")
        threading.Timer(0.05, fcntl.flock, (asking.fileno(), fcntl.LOCK_UN)).start()
        with seat.taken(tmp_path, "here"):
            assert seat.is_taken(tmp_path, "here")


def test_a_seat_is_held_once(tmp_path):
    with (
        seat.taken(tmp_path, "here"),
        pytest.raises(LockedError, match="runs on this machine already"),
        seat.taken(tmp_path, "here"),
    ):
        pass


def test_a_holder_is_asked_once_to_end(tmp_path, sit):
    process = sit("sys.exit()")
    seat.end(tmp_path, "here")
    assert process.stdout.read() == "told\n"


def test_a_holder_that_stays_is_killed(tmp_path, sit):
    process = sit("None")
    seat.end(tmp_path, "here", patience_s=0.3)
    assert process.wait(timeout=5) == -9
    assert process.stdout.read() == "told\n"


def test_a_seat_is_named_before_anybody_took_it_and_for_good(tmp_path):
    name = seat.lasting_name(tmp_path, "here")
    assert name == seat.lasting_name(tmp_path, "here") == seat.name(tmp_path, "here")
    with seat.taken(tmp_path, "here") as taken:
        assert taken == name == seat.lasting_name(tmp_path, "here")


def test_a_poke_is_seen(tmp_path):
    assert seat.poked_ns(tmp_path, "here") == 0
    seat.poke(tmp_path, "here")
    assert seat.poked_ns(tmp_path, "here") > 0


def test_a_seat_whose_file_was_scribbled_on_can_still_be_taken(tmp_path):
    path = tmp_path / "supervisors" / "here.lock"
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe\n12\n")
    assert not seat.is_taken(tmp_path, "here")
    with seat.taken(tmp_path, "here"):
        assert seat.holder(tmp_path, "here") == os.getpid()
