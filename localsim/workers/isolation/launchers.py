"""The launcher that a simulator started, and what to do about one that was left behind.

It ends with its simulator by itself; this is for the moment in between.
"""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from localsim.workers import processes

_NAME = "vpc.launcher"
_POLL_S = 0.01
END_S = 10.0


def record(state_dir: Path, pid: int) -> None:
    """Remember a launcher by its process and start time; raises OSError."""
    (state_dir / _NAME).write_text(f"{pid} {processes.started(pid)}\n", "ascii")


def forget(state_dir: Path) -> None:
    """It has ended."""
    (state_dir / _NAME).unlink(missing_ok=True)


async def end_left_over(state_dir: Path) -> None:
    """Return when the launcher of an earlier simulator, and all in its VPC, has ended.

    Raises processes.UnkillableError.
    """
    try:
        pid, started = (state_dir / _NAME).read_text("ascii").split()
    except (FileNotFoundError, ValueError):  # ValueError: the simulator ended while it wrote it
        return
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + END_S
    while processes.started(int(pid)) == started:
        if loop.time() > deadline_s:
            raise processes.UnkillableError(f"still running: {pid}")
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
        await asyncio.sleep(_POLL_S)
    forget(state_dir)
