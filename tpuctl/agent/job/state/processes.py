"""Process groups: what lives of one, what it takes, and its end. Python 3.8."""

from __future__ import annotations

import contextlib
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    """The system tells of its processes in /proc."""
    return os.path.exists("/proc/self/stat")


def members(group: int) -> Iterator[int]:
    """The processes of a group, dead ones as well, where the system tells."""
    if not has_proc():
        return
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.getpgid(int(name)) == group:
                    yield int(name)


def is_group_alive(group: int) -> bool:
    """Whether a process of the group runs, or has ended and not yet let go of its files."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return not has_proc() or any(is_living(pid) for pid in members(group))


def is_living(pid: int) -> bool:
    """A process that has not ended yet, with all of its threads."""
    with contextlib.suppress(OSError):
        # The first thread of a process may have ended before the others, which hold its files.
        return stat(pid)[0] not in (b"Z", b"X") or len(os.listdir(f"/proc/{pid}/task")) > 1
    return False


def stat(pid: int) -> list[bytes]:
    """/proc/PID/stat from the state on. Raises OSError."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def start_ticks(pid: int) -> int | None:
    """When a running process began, in the kernel's ticks; None where the system does not tell."""
    with contextlib.suppress(OSError):
        fields = stat(pid)
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    return None


def marked_processes(marks: Sequence[str]) -> Iterator[int]:
    """The processes that carry the mark of a run, whatever group or session they went to."""
    wanted = {f"{MARK}={mark}".encode("utf-8", "surrogateescape") for mark in marks}
    for name in os.listdir("/proc") if has_proc() else []:
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if not wanted.isdisjoint(file.read().split(b"\0")) and is_living(int(name)):
                    yield int(name)


def end_marked(marks: Sequence[str], grace_s: float) -> None:
    """End them: what is left of a run holds the chips, and would go on beside the next one."""
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
    """The resident memory of a process group, where the system tells."""
    if not group or not has_proc():
        return None
    pages = 0
    for pid in members(group):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/statm", "rb") as file:
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
