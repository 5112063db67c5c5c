"""Checks of the free space where tpuctl writes: its own directory, and that of temporary files."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shlex import quote

from tpuctl.byte_size import size_text
from tpuctl.errors import LocalIOError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope

HOME_DISK, TEMPORARY_DISK = "disk of TPUCTL_HOME", "disk of TMPDIR"
LOW_BYTES, NONE_BYTES = 1 << 30, 100 << 20
"""Below the first a transfer or a local cloud may fill it; below the second anything does."""
OTHER_PLACES = ("/var/tmp", "/tmp", "/dev/shm")  # noqa: S108 - only named where they have space
LEFT_BEHIND = "rehearsals"
"""What failed rehearsals leave below TPUCTL_HOME for people to look at."""

FreeBytes = Callable[[Path], int]


def ask_disks(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether there is space for tpuctl's own files and for temporary ones."""
    yield home_disk_line(scope.home, free_bytes)
    yield temporary_disk_line(scope.environ, free_bytes)


def free_bytes(path: Path) -> int:
    """The free space of the file system that a path is on, or will be on."""
    there = next(each for each in (path, *path.parents) if each.exists())
    return shutil.disk_usage(there).free


def home_disk_line(home: Path, free: FreeBytes) -> HealthCheck:
    """The line of TPUCTL_HOME; what rehearsals left is the first thing to delete."""
    left = home / LEFT_BEHIND
    command = f"rm -r {quote(str(left))}" if left.is_dir() else f"du -xhd1 {quote(str(home))}"
    return _line(HOME_DISK, home, free(home), command)


def temporary_disk_line(environ: Mapping[str, str], free: FreeBytes) -> HealthCheck:
    """The line of the directory of temporary files, with another one that has space."""
    named = Path(environ.get("TMPDIR") or "/tmp")  # noqa: S108 - the system's own default
    if not named.is_dir():
        evidence = f"TMPDIR is {named}, which is not a directory"
        return HealthCheck(TEMPORARY_DISK, HealthState.FAIL, evidence, "unset TMPDIR")
    others = (Path(each) for each in OTHER_PLACES if Path(each).is_dir())
    place = next((each for each in others if each != named and free(each) >= LOW_BYTES), None)
    command = f"export TMPDIR={place}" if place else f"du -xhd1 {quote(str(named))}"
    return _line(TEMPORARY_DISK, named, free(named), command)


def _line(name: str, path: Path, free: int, fix: str) -> HealthCheck:
    evidence = f"{size_text(free)} free in {path}"
    if free >= LOW_BYTES:
        return HealthCheck(name, HealthState.PASS, evidence)
    if free >= NONE_BYTES:
        return HealthCheck(name, HealthState.WARN, evidence, fix)
    return HealthCheck(name, HealthState.FAIL, evidence, fix, error=LocalIOError(evidence))


CHECKS = (DoctorCheck(HOME_DISK, ask_disks),)
