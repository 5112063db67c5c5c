"""The processes of this machine: lists, signals and ends those of a worker.

A process belongs to the worker that its environment names (MARKER), which it inherits through
setsid, nohup and daemonising, or whose recorded program leads its session.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

MARKER = "LOCALSIM_WORKER"
KILL_TIMEOUT_S = 10.0
_PROC = Path("/proc")
_POLL_S = 0.004


class UnkillableError(Exception):
    """Processes outlived SIGKILL."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process; zombies are left out."""

    pid: int
    group: int
    session: int
    started: str
    """Start time in the system's own format: with the pid it names a process for good."""
    worker: str
    """Value of MARKER in its environment, empty without one."""


def has_proc() -> bool:
    """Whether this system tells of processes by /proc."""
    return (_PROC / "self/stat").exists()


def list_processes() -> list[Process]:
    """Return every process that this user may see."""
    if not has_proc():
        return _from_ps(_ps())
    rows = (_from_proc(name) for name in os.listdir(_PROC) if name.isdigit())
    return [row for row in rows if row]


def start_time(pid: int) -> str | None:
    """Return the start time of one process, None when there is no such process."""
    if has_proc():
        row = _from_proc(str(pid))
        return row.started if row else None
    return next((row.started for row in _from_ps(_ps()) if row.pid == pid), None)


def has_socket(pid: int, inode: int) -> bool:
    """Whether a process has the socket with that inode open."""
    directory = f"{_PROC}/{pid}/fd"
    try:
        return any(
            os.readlink(f"{directory}/{name}") == f"socket:[{inode}]"
            for name in os.listdir(directory)
        )
    except OSError:  # it has just ended, or a descriptor was closed
        return False


def signal_processes(processes: Iterable[Process], number: int) -> None:
    """Signal each process; one that has just gone is not an error."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def signal_groups(processes: Iterable[Process], number: int) -> None:
    """Signal each group that the processes are in, once."""
    for group in {process.group for process in processes}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


async def kill_processes(belongs: Callable[[Process], bool]) -> None:
    """End all processes that belong, and those they start meanwhile; raises UnkillableError."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while left := [process for process in list_processes() if belongs(process)]:
        if time.monotonic() > deadline:
            raise UnkillableError(f"still running: {sorted(process.pid for process in left)}")
        signal_processes(left, signal.SIGKILL)
        await asyncio.sleep(_POLL_S)


def _from_proc(pid: str) -> Process | None:
    try:
        stat = _read(pid, "stat")
    except OSError:
        return None
    # The command's name is in parentheses and may itself hold spaces and parentheses.
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(
        pid=int(pid),
        group=int(fields[2]),
        session=int(fields[3]),
        started=fields[19].decode(),
        worker=_marker(pid),
    )


def _marker(pid: str) -> str:
    try:
        environment = b"\0" + _read(pid, "environ")
    except OSError:
        return ""
    _, _, rest = environment.partition(f"\0{MARKER}=".encode())
    return rest.partition(b"\0")[0].decode(errors="replace")


def _read(pid: str, name: str) -> bytes:
    """Return the content of a file of a process; raises OSError."""
    with open(f"{_PROC}/{pid}/{name}", "rb", buffering=0) as file:
        return file.read()


def _ps() -> str:
    """The process table where there is no /proc (macOS); -E shows the environment."""
    columns = "pid=,pgid=,stat=,lstart=,command="
    argv = ["/bin/ps", "-A", "-E", "-ww", "-o", columns]
    return subprocess.run(
        argv, env={"LC_ALL": "C"}, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def _from_ps(table: str) -> list[Process]:
    return [row for line in table.splitlines() if (row := _from_ps_line(line))]


def _from_ps_line(line: str) -> Process | None:
    pid, group, state, *rest = line.split()
    if state.startswith("Z"):
        return None
    markers = [word.partition("=")[2] for word in rest[5:] if word.startswith(f"{MARKER}=")]
    # ps tells neither the session nor what is ignored: every program here leads a group of its own.
    return Process(
        pid=int(pid),
        group=int(group),
        session=int(group),
        started="".join(rest[:5]),
        worker=(markers or [""])[-1],
    )
