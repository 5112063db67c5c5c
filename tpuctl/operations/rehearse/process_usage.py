"""What processes use: the CPU seconds of those that ended, the memory of those that run."""

import os
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
SAMPLE_S = 0.25


def end_process(process: "subprocess.Popen[str]", number: int) -> float:
    """Send a signal, wait for the end; returns the CPU seconds of it and of all it waited for."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except ChildProcessError:  # it was waited for already
        return 0.0
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def memory_bytes(roots: Iterable[int]) -> int:
    """The private memory of processes and all below them; 0 where the system does not tell."""
    return sum(_private_bytes(pid) for root in roots for pid in _tree(root))


def available_bytes() -> int | None:
    """The memory that is free for programs; None where the system does not tell."""
    for line in _lines(PROC / "meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


@dataclass
class MemoryPeak:
    """The most memory that some processes were seen to use together."""

    bytes: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def watch(self, roots: Iterable[int]) -> None:
        """Look again and again until it has ended."""
        while not self.ended.wait(SAMPLE_S):
            self.bytes = max(self.bytes, memory_bytes(roots))


@contextmanager
def watch_memory(roots: Iterable[int]) -> Iterator[MemoryPeak]:
    """Watch the memory of processes, and of all below them, during the block."""
    peak = MemoryPeak()
    thread = threading.Thread(target=peak.watch, args=(tuple(roots),), daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        peak.ended.set()
        thread.join()


def _tree(root: int) -> Iterator[int]:
    yield root
    for task in _tasks(root):
        for child in " ".join(_lines(task / "children")).split():
            yield from _tree(int(child))


def _tasks(pid: int) -> list[Path]:
    """The threads of a process: each has children of its own."""
    with suppress(OSError):
        return list((PROC / str(pid) / "task").iterdir())
    return []


def _private_bytes(pid: int) -> int:
    for line in _lines(PROC / str(pid) / "status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii", "replace").splitlines()
    except OSError:
        return []
