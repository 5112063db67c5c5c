"""Measures the host of this worker: processor, memory, disk and network. Python 3.8.

In a container the figures are the container's own: by cgroup v2, or where that is not in sight by
its processes. Else they are those of the machine.
"""

from __future__ import annotations

import contextlib
import os
import time

from tpuctl.agent.metrics import process_totals
from tpuctl.agent.metrics.process_totals import ProcessTotals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = "/proc"
CGROUP = "/sys/fs/cgroup"
SECTOR_BYTES = 512
NOT_DISKS = ("loop", "ram", "dm-", "md", "zram")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class HostProbe:
    """Measures the host again and again; rates are those since the time before."""

    def __init__(self, proc: str = PROC, cgroup: str = CGROUP, place: str = "/") -> None:
        """`place` is a path on the disk whose space is measured."""
        self.proc = proc
        self.cgroup = cgroup
        self.place = place
        self.processes = ProcessTotals(proc) if process_totals.is_in_container(proc) else None
        """Only where no cgroup counts."""
        self.before: dict[str, float] = {}
        self.before_s = 0.0

    def measure(self) -> dict[str, float]:
        """Return what can be measured; rates are missing the first time."""
        now_s = time.monotonic()
        counters: dict[str, float] = {}
        values: dict[str, float] = {}
        for measure in (self.memory, self.load, self.disk_space):
            with contextlib.suppress(OSError, ValueError, IndexError, KeyError):
                values.update(measure())
        for count in (self.busy_s, self.disk_bytes, self.network_bytes):
            with contextlib.suppress(OSError, ValueError, IndexError, KeyError):
                counters.update(count())
        values.update(self.rates(counters, now_s - self.before_s))
        self.before, self.before_s = counters, now_s
        return values

    def rates(self, counters: dict[str, float], elapsed_s: float) -> Iterator[tuple[str, float]]:
        """Yield the rate of each counter that was there before; processors in percent of all."""
        is_own = self.has_cgroup or self.processes is not None
        processors = len(os.sched_getaffinity(0)) if is_own else os.cpu_count() or 1
        for name, count in counters.items():
            if name in self.before and elapsed_s > 0:
                rate = max(0.0, count - self.before[name]) / elapsed_s
                yield name, 100 * rate / processors if name == "host.cpu_percent" else rate

    @property
    def has_cgroup(self) -> bool:
        """Whether memory is counted by a cgroup: the root of a machine's cgroups has no count."""
        return os.path.exists(os.path.join(self.cgroup, "memory.current"))

    def busy_s(self) -> dict[str, float]:
        """Return the seconds that processors have been busy."""
        if self.has_cgroup:
            busy_us = fields(self.text(self.cgroup, "cpu.stat"))["usage_usec"]
            return {"host.cpu_percent": busy_us / 1e6}
        if self.processes is not None:
            return {"host.cpu_percent": self.processes.busy_s()}
        # user, nice, system, idle, iowait, irq, softirq, steal (man 5 proc)
        ticks = [int(word) for word in self.text(self.proc, "stat").split("\n", 1)[0].split()[1:9]]
        return {"host.cpu_percent": (sum(ticks) - ticks[3] - ticks[4]) / TICKS_PER_S}

    def memory(self) -> dict[str, float]:
        """Return memory in use and in all, in bytes; what the kernel can take back is free."""
        kib = fields(self.text(self.proc, "meminfo").replace(":", ""))
        total = kib["MemTotal"] * 1024
        used = total - kib["MemAvailable"] * 1024
        if not self.has_cgroup and self.processes is not None:
            used = float(self.processes.memory_bytes())
        if self.has_cgroup:
            used = float(self.text(self.cgroup, "memory.current"))
            with contextlib.suppress(OSError, KeyError):
                used -= fields(self.text(self.cgroup, "memory.stat"))["inactive_file"]
            with contextlib.suppress(OSError, ValueError):  # `max` is not a limit
                total = min(total, float(self.text(self.cgroup, "memory.max")))
        return {"host.memory_used_bytes": used, "host.memory_total_bytes": total}

    def load(self) -> dict[str, float]:
        """Return how many processes wanted a processor, over the last minute."""
        return {"host.load_1m": float(self.text(self.proc, "loadavg").split()[0])}

    def disk_space(self) -> dict[str, float]:
        """Return the space of the disk in use and in all, in bytes, as an account can use it."""
        found = os.statvfs(self.place)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        total = used + found.f_bavail * found.f_frsize
        return {"host.disk_used_bytes": float(used), "host.disk_total_bytes": float(total)}

    def disk_bytes(self) -> dict[str, float]:
        """Return the bytes read from and written to all disks."""
        read = written = 0.0
        if self.has_cgroup:
            for line in self.text(self.cgroup, "io.stat").splitlines():
                counts = dict(word.split("=") for word in line.split()[1:])
                read += int(counts["rbytes"])
                written += int(counts["wbytes"])
        elif self.processes is not None:
            read, written = map(float, self.processes.disk_bytes())
        else:
            for words in map(str.split, self.text(self.proc, "diskstats").splitlines()):
                # A partition counts again what its disk has counted.
                if os.path.isdir(f"/sys/block/{words[2]}") and not words[2].startswith(NOT_DISKS):
                    read += int(words[5]) * SECTOR_BYTES
                    written += int(words[9]) * SECTOR_BYTES
        return {"host.disk_read_bytes_per_s": read, "host.disk_written_bytes_per_s": written}

    def network_bytes(self) -> dict[str, float]:
        """Return the bytes received and sent by all interfaces but the loopback."""
        received = sent = 0.0
        for line in self.text(self.proc, "net/dev").splitlines()[2:]:
            name, _, counts = line.partition(":")
            if name.strip() != "lo":
                words = counts.split()
                received += int(words[0])
                sent += int(words[8])
        return {
            "host.network_received_bytes_per_s": received,
            "host.network_sent_bytes_per_s": sent,
        }

    def text(self, place: str, name: str) -> str:
        """Return the text of a file of the kernel. Raises OSError."""
        with open(os.path.join(place, name), encoding="ascii", errors="replace") as file:
            return file.read()


def fields(text: str) -> dict[str, float]:
    """Return the numbers of lines `name number ...`."""
    lines = (line.split() for line in text.splitlines())
    return {words[0]: float(words[1]) for words in lines if len(words) > 1}
