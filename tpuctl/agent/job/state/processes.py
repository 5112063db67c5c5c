"""Process groups: their members, memory and end. Python 3.8."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence

MARK = "TPUCTL_DIRECTORY"
"""In the environment of whatever a run starts: the directory of the run."""
POLL_S = 0.1
DYING_S = 10.0


def signal_group(group: int, number: int) -> None:
    """Signal a process group that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def has_proc() -> bool:
    """Whether the system has /proc."""
    return os.path.exists("/proc/self/stat")


def pids() -> list[int]:
    """Return every process of this system, ended ones too; none without /proc."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()] if has_proc() else []


def members(group: int) -> Iterator[int]:
    """Yield the processes of a group, ended ones too; none without /proc."""
    for pid in pids():
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == group:
                yield pid


def is_group_alive(group: int) -> bool:
    """Whether a process of the group runs, or has ended and not yet let go of its files."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return not has_proc() or any(is_living(pid) for pid in members(group))


def is_living(pid: int) -> bool:
    """Whether a process or one of its threads has not ended."""
    with contextlib.suppress(OSError):
        # The first thread of a process may have ended before the others, which hold its files.
        return stat(pid)[0] not in (b"Z", b"X") or len(os.listdir(f"/proc/{pid}/task")) > 1
    return False


def stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat (proc(5)) from the third, the state, on; OSError."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in ticks since boot; None when it has ended or without /proc."""
    with contextlib.suppress(OSError):
        fields = stat(pid)
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    return None


def marked_processes(marks: Sequence[str]) -> Iterator[int]:
    """Yield the processes with the MARK of one of the runs, in whatever group or session."""
    wanted = {f"{MARK}={mark}".encode("utf-8", "surrogateescape") for mark in marks}
    for pid in pids():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if not wanted.isdisjoint(file.read().split(b"\0")) and is_living(pid):
                yield pid


def end_marked(marks: Sequence[str], grace_s: float) -> None:
    """End the processes of these runs: SIGTERM, and SIGKILL after `grace_s`.

    What is left of a run holds the chips, and would go on beside the next one.
    """
    number, now = signal.SIGTERM, time.monotonic()
    kill_at, give_up_at = now + grace_s, now + grace_s + DYING_S
    while time.monotonic() < give_up_at:
        left = list(marked_processes(marks)) if marks else []
        if not left:
            return
        if time.monotonic() >= kill_at:
            number = signal.SIGKILL
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        time.sleep(POLL_S)


def group_rss_bytes(group: int | None) -> int | None:
    """Return the resident memory of a process group in bytes, None without /proc."""
    if not group or not has_proc():
        return None
    pages = 0
    for pid in members(group):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/statm", "rb") as file:
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
