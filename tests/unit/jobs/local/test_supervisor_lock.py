"""The seat of a supervisor: who holds it, how it is asked for, and how its holder is ended."""

import fcntl
import os
import stat
import subprocess
import sys
import threading

import pytest

from tpuctl.errors import LockedError
from tpuctl.jobs.local import supervisor_lock

SITTING = """
import signal, sys
from pathlib import Path
from tpuctl.jobs.local import supervisor_lock

signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True) or {then})
with supervisor_lock.hold(Path(sys.argv[1]), "here"):
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
    with supervisor_lock.hold(tmp_path, "here") as name:
        assert lock_file(tmp_path).read_text() == f"{name}\n{os.getpid()}\n"
        assert supervisor_lock.holder_pid(tmp_path, "here") == os.getpid()
    assert lock_file(tmp_path).read_text() == f"{name}\n"
    assert (
        supervisor_lock.host_id(tmp_path, "here"),
        supervisor_lock.holder_pid(tmp_path, "here"),
    ) == (name, None)


@pytest.mark.system
def test_a_killed_holders_process_is_not_taken_for_the_next(tmp_path, sit):
    process = sit("None")
    assert supervisor_lock.holder_pid(tmp_path, "here") == process.pid
    process.kill()
    process.wait()
    assert lock_file(tmp_path).read_text().split()[1] == str(process.pid)
    assert supervisor_lock.holder_pid(tmp_path, "here") is None
    supervisor_lock.stop_supervisor(tmp_path, "here")  # and nobody else gets a signal


def test_who_only_asks_keeps_nobody_out(tmp_path):
    with supervisor_lock.hold(tmp_path, "here"):
        pass
    with lock_file(tmp_path).open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not supervisor_lock.is_locked(tmp_path, "here")
        threading.Timer(0.05, fcntl.flock, (asking.fileno(), fcntl.LOCK_UN)).start()
        with supervisor_lock.hold(tmp_path, "here"):
            assert supervisor_lock.is_locked(tmp_path, "here")


def test_a_seat_is_held_once(tmp_path):
    with (
        supervisor_lock.hold(tmp_path, "here"),
        pytest.raises(LockedError, match="runs on this machine already"),
        supervisor_lock.hold(tmp_path, "here"),
    ):
        pass


@pytest.mark.system
def test_a_holder_is_asked_once_to_end(tmp_path, sit):
    process = sit("sys.exit()")
    supervisor_lock.stop_supervisor(tmp_path, "here")
    assert process.stdout.read() == "told\n"


@pytest.mark.system
def test_a_holder_that_stays_is_killed(tmp_path, sit):
    process = sit("None")
    supervisor_lock.stop_supervisor(tmp_path, "here", patience_s=0.3)
    assert process.wait(timeout=5) == -9
    assert process.stdout.read() == "told\n"


def test_a_seat_is_named_before_anybody_took_it_and_for_good(tmp_path):
    name = supervisor_lock.ensure_host_id(tmp_path, "here")
    assert (
        name
        == supervisor_lock.ensure_host_id(tmp_path, "here")
        == supervisor_lock.host_id(tmp_path, "here")
    )
    with supervisor_lock.hold(tmp_path, "here") as taken:
        assert taken == name == supervisor_lock.ensure_host_id(tmp_path, "here")


def test_a_poke_is_seen(tmp_path):
    assert supervisor_lock.last_wake_ns(tmp_path, "here") == 0
    supervisor_lock.wake(tmp_path, "here")
    assert supervisor_lock.last_wake_ns(tmp_path, "here") > 0


def test_a_seat_whose_file_was_scribbled_on_can_still_be_taken(tmp_path):
    path = tmp_path / "supervisors" / "here.lock"
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe\n12\n")
    assert not supervisor_lock.is_locked(tmp_path, "here")
    with supervisor_lock.hold(tmp_path, "here"):
        assert supervisor_lock.holder_pid(tmp_path, "here") == os.getpid()


def test_a_directory_that_was_left_open_is_closed_and_a_shared_one_is_not(tmp_path):
    for name, before, after in (("state", 0o755, 0o700), ("shared", 0o1777, 0o1777)):
        directory = tmp_path / name
        directory.mkdir()
        directory.chmod(before)
        os.close(supervisor_lock.open_private(directory / "lock", os.O_RDWR))
        assert stat.S_IMODE(directory.stat().st_mode) == after
        assert stat.S_IMODE((directory / "lock").stat().st_mode) == 0o600
