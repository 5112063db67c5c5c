"""Locks of files, which are free when their holder ends, however it ends (flock(2))."""

import fcntl
import os
import time
from pathlib import Path
from typing import IO, Any

from tpuctl.errors import LockedError

WAIT_S, POLL_S = 10.0, 0.02
"""How long a holder is waited for, and how often it is looked."""


def hold_lock(path: Path, does: str) -> IO[str]:
    """Take the lock of a file until what is returned is closed.

    `does` says what a holder does. Raises LockedError when somebody holds it for WAIT_S, OSError.
    """
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+")
    try:
        deadline_s = time.monotonic() + WAIT_S
        while not try_lock(file, fcntl.LOCK_EX):
            if time.monotonic() > deadline_s:
                pid = file.read().strip()
                raise LockedError(
                    f"process {pid} {does} and does not go on",
                    hint=f"end it: kill {pid}; then run the same command again",
                )
            time.sleep(POLL_S)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
    except BaseException:
        file.close()
        raise
    return file


def try_lock(file: IO[Any], kind: int) -> bool:
    """Take a lock, shared or exclusive, unless somebody holds it; says whether it is taken."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
