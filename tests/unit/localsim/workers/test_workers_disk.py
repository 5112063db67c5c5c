import json
import os
from pathlib import Path

import asyncssh  # noqa: F401 - it starts ldconfig when it is imported, which no unit test may do
import pytest

from localsim.workers.disk import slice_disk as disks

PORTS = (40001, 40002, 40003)
NAME = "projects/p/locations/z/nodes/../../n"


def test_a_disk_loads_as_it_was_made(tmp_path: Path):
    made = disks.create_disk(tmp_path, NAME, PORTS)
    assert disks.load_disk(made.directory) == made
    assert made.worker_ports == (40002, 40003)
    assert made.ports == frozenset(PORTS)
    assert [worker.directory.name for worker in made.workers] == ["0", "1"]
    assert made.hostname(1) == f"{made.host_prefix}-w-1"


def test_host_keys_and_homes_are_private(tmp_path: Path):
    (worker, _) = disks.create_disk(tmp_path, NAME, PORTS).workers
    assert worker.host_key().get_algorithm() == "ssh-ed25519"
    assert (worker.directory / "host_key").stat().st_mode & 0o777 == 0o600
    assert worker.home.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("umask", [0, 0o077])
def test_a_disk_is_its_owner_s_alone_whatever_the_umask(tmp_path: Path, umask):
    before = os.umask(umask)
    try:
        disks.create_disk(tmp_path / "slices", NAME, PORTS)
    finally:
        os.umask(before)
    found = {
        (path.is_dir(), path.stat().st_mode & 0o777) for path in (tmp_path / "slices").rglob("*")
    }
    assert (tmp_path / "slices").stat().st_mode & 0o777 == 0o700
    assert found == {(True, 0o700), (False, 0o600)}


def test_markers_name_slice_and_worker(tmp_path: Path):
    made = disks.create_disk(tmp_path, NAME, PORTS)
    assert made.workers[1].marker == f"{disks.slice_id(made.directory)}-1"


def test_a_disk_that_was_never_finished_does_not_load(tmp_path: Path):
    made = disks.create_disk(tmp_path, NAME, PORTS)
    (made.directory / "slice.json").unlink()
    assert disks.load_disk(made.directory) is None
    assert list(disks.slice_directories(tmp_path)) == [made.directory]


def test_removal_starts_with_a_rename_that_no_longer_loads(tmp_path: Path):
    made = disks.create_disk(tmp_path, NAME, PORTS)
    gone = made.directory.rename(made.directory.with_name(made.directory.name + ".gone"))
    assert disks.load_disk(gone) is None
    assert disks.slice_id(gone) == made.directory.name
    disks.remove_disk(gone)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("most_entries", [1, 500])
@pytest.mark.system
def test_a_link_out_of_the_disk_is_removed_and_not_followed(
    tmp_path: Path, monkeypatch, most_entries: int
):
    monkeypatch.setattr(disks, "MOST_SMALL_ENTRIES", most_entries)
    made = disks.create_disk(tmp_path / "slices", NAME, PORTS)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (made.workers[0].home / "link").symlink_to(kept)
    disks.remove_disk(made.directory)
    assert (kept / "file").exists()


def test_a_newer_disk_is_refused(tmp_path: Path):
    made = disks.create_disk(tmp_path, NAME, PORTS)
    file = made.directory / "slice.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 2}))
    with pytest.raises(disks.NewerDiskError, match="newer localsim"):
        disks.load_disk(made.directory)


def test_no_slices_yet(tmp_path: Path):
    assert list(disks.slice_directories(tmp_path / "none")) == []


def nest(directory: Path, depth: int) -> None:
    """Directories in each other, deeper than a path can tell."""
    back = os.open(".", os.O_RDONLY)
    try:
        os.chdir(directory)
        for _ in range(depth):
            Path("d" * 20).mkdir()
            os.chdir("d" * 20)
        Path("file").write_bytes(bytes(1 << 20))
    finally:
        os.fchdir(back)
        os.close(back)


@pytest.mark.system
def test_directories_too_deep_for_any_path_are_measured_and_removed(tmp_path: Path):
    made = disks.create_disk(tmp_path, NAME, PORTS)
    worker = made.workers[1]
    worker.upper.mkdir()
    nest(worker.upper, 1500)
    assert worker.used_bytes() >= 1 << 20
    disks.remove_disk(made.directory)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_what_programs_closed_to_themselves_is_removed(tmp_path: Path):
    made = disks.create_disk(tmp_path, NAME, PORTS)
    closed = made.workers[0].home / "closed" / "more"
    closed.mkdir(parents=True)
    closed.parent.chmod(0)
    disks.remove_disk(made.directory)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_what_cannot_be_removed_is_told_and_no_longer_loads(tmp_path: Path, monkeypatch):
    made = disks.create_disk(tmp_path, NAME, PORTS)
    rm = tmp_path / "bin" / "rm"
    rm.parent.mkdir()
    rm.write_text("#!/bin/sh\necho rm: busy >&2\nexit 1\n")
    rm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{rm.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(disks, "MOST_SMALL_ENTRIES", 1)
    with pytest.raises(disks.IncompleteRemovalError, match=r"\.gone cannot be removed: rm: busy$"):
        disks.remove_disk(made.directory)
    (gone,) = tmp_path.glob("*.gone")
    assert disks.load_disk(gone) is None
