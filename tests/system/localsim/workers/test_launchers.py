"""How a launcher forks, and what a simulator makes of the note that an earlier one left of it."""

import asyncio
import subprocess
import sys

import pytest

from localsim.workers import processes
from localsim.workers.isolation import launcher_record

FORK = """
import os, sys
from localsim.workers.isolation.inside import kernel
os.register_at_fork(
    before=lambda: os.write(1, b"before "),
    after_in_parent=lambda: os.write(1, b"parent "),
    after_in_child=lambda: os.write(1, b"child "),
)
child = kernel.clone(0)
if child == 0:
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_clone_is_a_fork_to_python():
    """From 3.13 on, Python ends a child whose parent did not take the lock of its imports."""
    cloned = subprocess.run([sys.executable, "-P", "-c", FORK], capture_output=True, text=True)
    assert (cloned.returncode, cloned.stderr) == (0, "")
    first, *both = cloned.stdout.split()
    assert (first, sorted(both)) == ("before", ["child", "parent"])


def test_one_that_still_runs_is_ended_and_forgotten(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as left:
        launcher_record.record_launcher(tmp_path, left.pid)
        asyncio.run(launcher_record.end_orphans(tmp_path))
        assert left.wait() == -9
    assert list(tmp_path.iterdir()) == []


def test_so_is_its_child_which_ends_last(tmp_path):
    argv = ["/bin/sh", "-c", "sleep 600 & echo $!; wait"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as left:
        child = int(left.stdout.readline())
        launcher_record.record_launcher(tmp_path, left.pid)
        asyncio.run(launcher_record.end_orphans(tmp_path))
        assert left.wait() == -9
    assert processes.start_time(child) is None
    assert list(tmp_path.iterdir()) == []


def test_another_process_of_the_same_number_is_left_alone(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (tmp_path / "vpc.launcher").write_text(f"{other.pid} 1\n")
        asyncio.run(launcher_record.end_orphans(tmp_path))
        assert processes.start_time(other.pid) is not None
        other.communicate(b"\n")
    assert other.returncode == 0


@pytest.mark.parametrize("note", ["", "123", "123 "])
def test_a_note_that_was_never_finished_is_no_note(tmp_path, note):
    (tmp_path / "vpc.launcher").write_text(note)
    asyncio.run(launcher_record.end_orphans(tmp_path))
