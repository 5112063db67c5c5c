"""What a process and everything below it costs (Linux)."""

import os
from contextlib import suppress
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """The process itself and all below it."""
    found = [pid]
    for each in found:
        with suppress(OSError):  # it has just ended
            for children in Path(f"/proc/{each}/task").glob("*/children"):
                found += map(int, children.read_text("ascii").split())
    return found


def pss_mib(pid: int) -> float:
    """Memory of the whole tree; what several share is counted once."""
    return sum(map(_pss_kib, descendants(pid))) / 1024


def cpu_s(pid: int) -> float:
    """Processor time that the whole tree has used so far, with what has ended in it."""
    return sum(sum(_ticks(each)) for each in descendants(pid)) / TICKS_PER_S


def own_cpu_s(pid: int) -> float:
    """Processor time that one process has used so far."""
    return sum(_ticks(pid)[:2]) / TICKS_PER_S


def _pss_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _ticks(pid: int) -> list[int]:
    """What a process has used itself, in user and in system mode, and then its ended children."""
    with suppress(OSError):  # it has just ended
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return [int(field) for field in fields[11:15]]
    return [0]
