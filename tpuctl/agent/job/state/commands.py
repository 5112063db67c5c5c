"""What supervisors, the worker's shutdown and its metadata server ask of a run. Python 3.8."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal

from tpuctl.agent.job.state import rundir

GRACE_S = 10.0
REFUSED = 3
"""The status of a command under a fence that is smaller than one seen before."""


class RunCommands:
    """What one run is asked to do, by files of its directory and by signals."""

    def __init__(self, directory: str, drain_s: float | None = None) -> None:
        self.directory = directory
        self.drain_s = drain_s
        """For how long an engine may finish its requests; None: the program is none."""
        self.is_terminated = False
        """Whether SIGTERM came: the worker shuts down."""
        self.is_told = False
        """Whether a signal asked to stop, as the disk takes not even a link."""
        self.is_preempted = False
        self.maintenance: str | None = None

    def may_start(self) -> bool:
        """Whether the barrier is open."""
        return bool(rundir.read_word(os.path.join(self.directory, "go")))

    def stop(self) -> tuple[float, bool] | None:
        """Return the request to stop: its grace in seconds, and whether a dump comes first."""
        text = rundir.read_word(os.path.join(self.directory, "stop"))
        if not text:
            grace_s = max(GRACE_S, self.drain_s or 0.0)
            return (grace_s, False) if self.is_terminated or self.is_told else None
        words = text.split()
        return float(words[0]), "dump" in words[1:]

    def must_warn(self) -> bool:
        """Whether the program is to save now, by SIGTERM: an engine gets it after its drain."""
        return self.is_preempted and self.drain_s is None

    def notice(self) -> str | None:
        """Return why the worker will be gone soon, as the status tells it while the run goes on."""
        if self.is_preempted:
            return "preempted"
        return "terminated" if self.is_terminated else None

    def is_stopping(self) -> bool:
        """Whether nothing more may be started."""
        return self.is_preempted or self.stop() is not None


def write_command(directory: str, name: str, text: str, fence: int | None) -> int:
    """Write a command, `go` or `stop`, for the agent and wake it; return 0.

    Returns 3 when the fence is smaller than one seen before. Raises OSError for `go`.
    """
    if fence is not None and not admit_fence(directory, fence):
        return REFUSED
    number = signal.SIGUSR1
    try:
        rundir.write_word(os.path.join(directory, name), text)
    except OSError:
        if name != "stop":
            raise
        number = signal.SIGUSR2  # a disk that is read-only keeps nobody from stopping
    status = rundir.known_status(directory)
    if status and rundir.is_alive(directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(status["agent_pid"], number)
    return 0


def admit_fence(directory: str, fence: int) -> bool:
    """Remember the greatest fence of a job here; return whether this one is no smaller.

    A supervisor that was stopped past its lease, and goes on, finds a greater one.
    """
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
