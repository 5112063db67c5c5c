"""Counts what all processes in sight have used: a container's share of its machine. Python 3.8.

For a container that does not see its cgroup. /proc shows the processes of its PID namespace alone.
"""

from __future__ import annotations

import contextlib
import os

FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""The inode of the machine's own: PROC_PID_INIT_INO of the kernel's proc_ns.h."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGESIZE")


def is_in_container(proc: str = "/proc") -> bool:
    """Whether /proc shows another PID namespace than the machine's own."""
    try:
        return os.stat(os.path.join(proc, "self/ns/pid")).st_ino != FIRST_PID_NAMESPACE
    except OSError:
        return False


class ProcessTotals:
    """Sums that never fall, though processes end."""

    def __init__(self, proc: str = "/proc") -> None:
        self.proc = proc
        self.io: dict[str, tuple[int, int]] = {}
        self.read_bytes = 0
        self.written_bytes = 0

    def busy_s(self) -> float:
        """Return the processors' seconds of all, and of the children that they waited for."""
        return sum(self.ticks(pid) for pid in self.pids()) / TICKS_PER_S

    def memory_bytes(self) -> int:
        """Return the memory that no other process shares."""
        return sum(self.private_pages(pid) for pid in self.pids()) * PAGE_BYTES

    def disk_bytes(self) -> tuple[int, int]:
        """Return the bytes read and written since the first call, by those who were seen."""
        before, self.io = self.io, {pid: self.transferred(pid) for pid in self.pids()}
        for pid, (read, written) in self.io.items() if before else ():
            earlier = before.get(pid, (0, 0))
            self.read_bytes += max(0, read - earlier[0])
            self.written_bytes += max(0, written - earlier[1])
        return self.read_bytes, self.written_bytes

    def pids(self) -> list[str]:
        """Return the processes in sight."""
        return [name for name in os.listdir(self.proc) if name.isdigit()]

    def ticks(self, pid: str) -> int:
        """Return utime, stime, cutime and cstime together (man 5 proc); 0 for one that ended."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            words = self.text(pid, "stat").rpartition(")")[2].split()
            return sum(int(word) for word in words[11:15])
        return 0

    def private_pages(self, pid: str) -> int:
        """Return the resident pages that are not shared; 0 for a process that ended."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            words = self.text(pid, "statm").split()
            return int(words[1]) - int(words[2])
        return 0

    def transferred(self, pid: str) -> tuple[int, int]:
        """Return the bytes that a process had the disk read and write; none if that is hidden."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            lines = (line.split(": ") for line in self.text(pid, "io").splitlines())
            counts = {name: int(count) for name, count in lines}
            return counts["read_bytes"], counts["write_bytes"]
        return 0, 0

    def text(self, pid: str, name: str) -> str:
        """Return the text of a file of a process. Raises OSError."""
        with open(os.path.join(self.proc, pid, name), encoding="utf-8", errors="replace") as file:
            return file.read()
