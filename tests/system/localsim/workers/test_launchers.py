"""What a simulator makes of the note that an earlier one left of its launcher."""

import asyncio
import subprocess
import sys

import pytest

from localsim.workers import processes
from localsim.workers.isolation import launcher_record


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
