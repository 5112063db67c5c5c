"""The greatest lease fence that agents of a job have seen on this worker. Python 3.8.

A supervisor that was stopped past its lease, and goes on, finds a greater one here.
"""

from __future__ import annotations

import fcntl

from tpuctl.agent.job.state import rundir

REFUSED = 3


def admit(directory: str, fence: int) -> bool:
    """Remember the greatest fence of a job; return whether this one is no smaller."""
    path = directory.rpartition("-a")[0] + ".fence"
    try:
        with open(f"{path}.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            greatest = int(rundir.read_word(path) or 0)
            if fence > greatest:
                rundir.write_word(path, str(fence))
    except OSError:  # a disk that is read-only keeps nobody from stopping
        greatest = int(rundir.read_word(path) or 0)
    return fence >= greatest
