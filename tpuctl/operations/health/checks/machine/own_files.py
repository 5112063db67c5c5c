"""Checks of tpuctl's own directory: that it can be written, is private, and can be read."""

import fcntl
import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from shlex import quote

from tpuctl import config, file_lock
from tpuctl.errors import LocalIOError, LockedError, TpuctlError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope

HOME, CONFIG, LOCK = "TPUCTL_HOME", "config.yaml", "lock of config.yaml"
MOST_FILES = 1000
"""Files that are looked at, so that a directory of any size is soon done with."""
LOCK_WAIT_S, POLL_S = 1.0, 0.05
"""Who changes the contexts holds the lock for much less."""


def ask_home(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the directory can be written, and is closed to other people."""
    yield home_line(scope.home, os.geteuid())


def home_line(home: Path, user_id: int) -> HealthCheck:
    """The line of the directory, for the user of that id."""
    there = next(each for each in (home, *home.parents) if each.exists())
    if not there.is_dir():
        evidence = f"{there} is not a directory"
        fix = f"mv {quote(str(there))} {quote(f'{there}.bad')}"
        return HealthCheck(HOME, HealthState.FAIL, evidence, fix, error=LocalIOError(evidence))
    foreign = next(_foreign(home, user_id), None) if there == home else None
    mode = there.stat().st_mode
    if foreign is not None:
        evidence = f"{foreign} belongs to another user"
        fix = f"sudo chown -R {user_id} {quote(str(home))}"
        return HealthCheck(HOME, HealthState.FAIL, evidence, fix, error=LocalIOError(evidence))
    if not is_writable(there, user_id):
        evidence = f"{there} cannot be written"
        is_ours = there.stat().st_uid == user_id
        fix = f"chmod u+rwx {quote(str(there))}" if is_ours else "export TPUCTL_HOME=~/.tpuctl"
        error = LocalIOError(evidence)
        return HealthCheck(HOME, HealthState.FAIL, evidence, fix, is_safe=is_ours, error=error)
    if there == home and mode & 0o077:
        fix = f"chmod 700 {quote(str(home))}"
        evidence = f"other people may enter {home}"
        return HealthCheck(HOME, HealthState.WARN, evidence, fix, is_safe=True)
    return HealthCheck(HOME, HealthState.PASS, str(home))


def is_writable(directory: Path, user_id: int) -> bool:
    """Whether the user may make files in a directory, by its mode where the user owns it."""
    found = directory.stat()
    if found.st_uid == user_id and found.st_mode & 0o300 != 0o300:
        return False
    return os.access(directory, os.W_OK | os.X_OK)


def _foreign(home: Path, user_id: int) -> Iterator[Path]:
    """The first files of the directory, and of those in it, that belong to somebody else."""
    if user_id == 0:
        return
    below = (
        each for folder in ("ssh", "supervisors", "completion") for each in home.glob(f"{folder}/*")
    )
    for path in islice((home, *home.glob("*"), *below), MOST_FILES):
        if path.lstat().st_uid != user_id:
            yield path


def ask_config(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the file of contexts can be read."""
    path = scope.home / "config.yaml"
    try:
        found = config.load(scope.home)
    except TpuctlError as error:
        fix = f"mv {quote(str(path))} {quote(f'{path}.bad')}"
        yield HealthCheck(CONFIG, HealthState.FAIL, str(error), fix, error=error)
        return
    count = len(found.contexts)
    evidence = f"{count} context{'s' * (count != 1)}" if path.is_file() else "there is none yet"
    yield HealthCheck(CONFIG, HealthState.PASS, evidence)


def ask_lock(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether a process holds the lock of the contexts and does not go on."""
    path = scope.home / "config.lock"
    if not path.is_file():
        return
    ends_s = scope.monotonic() + LOCK_WAIT_S
    with path.open("r", encoding="ascii", errors="replace") as file:
        while not file_lock.try_lock(file, fcntl.LOCK_SH):
            if scope.monotonic() > ends_s:
                pid = file.read().strip()
                evidence = f"process {pid} changes the contexts and does not go on"
                fix = f"kill {pid}" if pid.isdecimal() else None
                error = LockedError(evidence)
                yield HealthCheck(LOCK, HealthState.FAIL, evidence, fix, error=error)
                return
            time.sleep(POLL_S)
    yield HealthCheck(LOCK, HealthState.PASS, "free")


CHECKS = (
    DoctorCheck(HOME, ask_home),
    DoctorCheck(CONFIG, ask_config),
    DoctorCheck(LOCK, ask_lock),
)
