"""Counts what processes use of processor, memory and network, as /proc tells of them (man 5 proc).

The first process of a worker counts its own programs; os alone, as it has little memory.
"""

import os

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
_FIRST = "1"


def busy_s(pids: list[str]) -> float:
    """Return the processors' seconds of these, and of the children that they waited for.

    The first process of a worker counts for those that it reaped alone.
    """
    return sum(map(_ticks, pids)) / _TICKS_PER_S


def memory_bytes(pids: list[str]) -> int:
    """Return the memory of these that no other process shares."""
    return sum(map(_private_pages, pids)) * _PAGE_BYTES


def process_ids() -> list[str]:
    """Return every process in sight."""
    return [name for name in os.listdir("/proc") if name.isdigit()]


def network_bytes() -> tuple[int, int]:
    """Return the bytes received and sent by all interfaces in sight but the loopback."""
    received = sent = 0
    with open("/proc/self/net/dev", encoding="ascii") as file:
        for line in file.readlines()[2:]:
            name, _, counts = line.partition(":")
            if name.strip() != "lo":
                words = counts.split()
                received += int(words[0])
                sent += int(words[8])
    return received, sent


def _ticks(pid: str) -> int:
    """Return utime, stime, cutime and cstime together; 0 for a process that has ended."""
    try:
        words = _text(pid, "stat").rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(int(word) for word in words[13 if pid == _FIRST else 11 : 15])


def _private_pages(pid: str) -> int:
    try:
        words = _text(pid, "statm").split()
    except OSError:
        return 0
    return int(words[1]) - int(words[2])


def _text(pid: str, name: str) -> str:
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()
