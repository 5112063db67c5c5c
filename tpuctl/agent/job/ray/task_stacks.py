"""The stacks of Ray's tasks and actors on a worker, for a run that hangs. Python 3.8."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import sys
import time

from tpuctl.agent.job.ray.ray_node import LINK
from tpuctl.agent.job.state import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""What Ray calls its own processes; the others are called ray::TASK."""
PRINTING_S = 1.0
SHOWN_BYTES = 65536
MARK = b"Fatal Python error: Aborted"


def dump(directory: str) -> None:
    """Let every task on this worker print its stacks and die, and print them in turn.

    Python prints them on SIGABRT, since PYTHONFAULTHANDLER is set; Ray puts that into a log.
    """
    names = dict(tasks(directory))
    for pid in names:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGABRT)
    if names:
        time.sleep(PRINTING_S)
    for path in sorted(
        glob.glob(os.path.join(directory, LINK, "session_latest/logs/worker-*.err"))
    ):
        number = path.rpartition("-")[2].partition(".")[0]
        name = names.get(int(number)) if number.isdigit() else None
        if name is not None:
            # A signal may come while a line is being printed: not through sys.stdout.
            text = f"==== process {number}: {name}\n".encode() + printed(path) + b"\n"
            os.write(sys.stdout.fileno(), text)


def tasks(directory: str) -> Iterator[tuple[int, str]]:
    """Yield process number and name of the tasks and actors of a run."""
    for pid in processes.marked_processes([directory]):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", errors="replace") as file:
            name = file.read().partition("\0")[0].strip()
            if name.startswith("ray::") and name not in OWN:
                yield pid, name


def printed(path: str) -> bytes:
    """Return what a log has of the last abort."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - SHOWN_BYTES))
        _, mark, stacks = file.read().rpartition(MARK)
        return mark + stacks
    return b""
