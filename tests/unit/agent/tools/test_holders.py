"""Who holds the chips of this machine, as far as it can be seen."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tpuctl.agent.tools import holders

SUDO = """#!{python}
import sys
sys.exit(0 if sys.argv[1:] == ["-n", "true"] else 9)
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Where libtpu's lock is looked for."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_process_that_has_the_lock_open_holds_the_chips(place):
    path = place / "libtpu_lockfile"
    with path.open("w"):
        assert holders.chip_files_of(os.getpid(), holders.chip_files()) == [str(path)]
    assert holders.chip_files_of(os.getpid(), holders.chip_files()) == []


def test_a_file_of_the_same_name_elsewhere_is_not_the_lock(place):
    (place / "libtpu_lockfile").touch()
    (place / "container").mkdir()
    with (place / "container" / "libtpu_lockfile").open("w"):
        assert holders.chip_files_of(os.getpid(), holders.chip_files()) == []


def test_a_device_is_known_by_its_name_and_its_number(monkeypatch):
    monkeypatch.setattr(holders, "NAME", re.compile("/dev/(zero|null)$"))
    with Path("/dev/zero").open("rb"):
        monkeypatch.setattr(holders, "DEVICES", ("/dev/zer[o]",))
        assert holders.chip_files_of(os.getpid(), holders.chip_files()) == ["/dev/zero"]
        monkeypatch.setattr(holders, "DEVICES", ("/dev/ful[l]",))
        assert holders.chip_files_of(os.getpid(), holders.chip_files()) == []


@pytest.mark.parametrize(
    ("path", "is_chip"),
    [
        ("/dev/accel0", True),
        ("/dev/vfio/12", True),
        ("/dev/vfio/vfio", False),
        ("/dev/accel", False),
        ("/dev/null", False),
        ("/tmp/libtpu_lockfile (deleted)", True),
    ],
)
def test_only_files_of_chips_are_looked_at(path, is_chip):
    assert bool(holders.NAME.search(path)) == is_chip


def test_a_process_of_our_own_needs_no_sudo(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    mine = {"pid": 1, "user": "12345"}
    found = {"holders": [mine], "unseen": [], "stale": [], "blind": False}
    assert not holders.needs_more(found)
    assert holders.needs_more({**found, "holders": [{**mine, "user": "ada"}]})
    assert holders.needs_more({**found, "unseen": ["/tmp/libtpu_lockfile"]})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not holders.needs_more({**found, "unseen": ["/tmp/libtpu_lockfile"]})


@pytest.mark.system
def test_sudo_is_asked_and_runs_the_same_again(place, monkeypatch):
    sudo = place / "sudo"
    sudo.write_text(SUDO.format(python=sys.executable))
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", str(place))
    called = []
    monkeypatch.setattr(os, "execvp", lambda *argv: called.append(argv))
    holders.rerun_as_root()
    ((name, argv),) = called
    assert (name, argv[:4]) == ("sudo", ["sudo", "-n", "env", f"TMPDIR={place}"])
    assert argv[4:] == holders.read("/proc/self/cmdline").split("\0")[:-1]


@pytest.mark.system
def test_where_sudo_asks_for_a_password_we_stay_who_we_are(place, monkeypatch):
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr(os, "execvp", lambda *_: pytest.fail("nobody allowed that"))
    holders.rerun_as_root()


def test_a_process_that_only_has_the_number_is_left_alone():
    began = holders.start_ticks(os.getpid())
    assert holders.free([[os.getpid(), began - 1]], 0.0)["ended"] == []


@pytest.mark.system
def test_what_an_ended_process_held_is_waited_for(place, monkeypatch):
    path = place / "libtpu_lockfile"
    path.touch()
    answers = iter([True, True, False])
    monkeypatch.setattr(holders, "POLL_S", 0.001)
    monkeypatch.setattr(holders, "is_locked", lambda each: each == str(path) and next(answers))
    with subprocess.Popen(["sleep", "600"]) as process:
        found = holders.free([[process.pid, holders.start_ticks(process.pid)]], 10.0)
    assert found["ended"] == [process.pid]
    assert (found["unseen"], found["removed"]) == ([], [str(path)])
