"""Records the launcher that a simulator starts, and ends one that was left behind.

It ends with its simulator by itself; this is for the moment in between.
"""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from localsim.workers import processes

_LAUNCHER, _FIRST = "vpc.launcher", "vpc.first"
"""Files in the state directory: the launcher's process, and the first one inside the VPC, which is
there until the last program in the VPC has gone."""
_POLL_S = 0.01
END_S = 10.0


def record_launcher(state_dir: Path, pid: int) -> None:
    """Remember a launcher and its child by process and start time; raises OSError."""
    children = Path(f"/proc/{pid}/task/{pid}/children")  # not every kernel has it
    first = children.read_text("ascii").split() if children.is_file() else []
    for name, process in zip((_LAUNCHER, _FIRST), (pid, *map(int, first)), strict=False):
        (state_dir / name).touch(mode=0o600)
        (state_dir / name).write_text(f"{process} {processes.start_time(process)}\n", "ascii")


def forget_launcher(state_dir: Path) -> None:
    """Remove the record of a launcher that has ended."""
    for name in (_LAUNCHER, _FIRST):
        (state_dir / name).unlink(missing_ok=True)


async def end_orphans(state_dir: Path) -> None:
    """Return when the launcher of an earlier simulator, and all in its VPC, has ended.

    Raises processes.UnkillableError.
    """
    for name in (_LAUNCHER, _FIRST):
        with suppress(FileNotFoundError, ValueError):  # the simulator ended while it wrote it
            pid, started = (state_dir / name).read_text("ascii").split()
            await _end(int(pid), started)
    forget_launcher(state_dir)


async def _end(pid: int, started: str) -> None:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + END_S
    while processes.start_time(pid) == started:
        if loop.time() > deadline_s:
            raise processes.UnkillableError(f"still running: {pid}")
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(_POLL_S)
