"""Checks that this machine has room for the workers of a slice."""

from pathlib import Path

from localsim.bench.bench_error import USAGE, BenchError
from tpuctl.catalog import AcceleratorType

WORKERS_PER_PROCESSOR = 8
WORKER_BYTES = 100 << 20
"""A Python with numpy and its buffers, without the arrays that are measured."""
ARRAYS_PER_CHIP = 3
"""What is given, what is under way and what comes out."""
PRODUCT_BYTES = 512 << 20
"""Operands, their rounded copies and the result of the largest matmul."""
_MEMINFO = Path("/proc/meminfo")
_LIMIT = Path("/sys/fs/cgroup/memory.max")


def check_machine(
    kind: AcceleratorType, largest_bytes: int, *, processors: int, available_bytes: int
) -> None:
    """Raise BenchError for a slice of too many workers or too much memory for this machine."""
    most = WORKERS_PER_PROCESSOR * processors
    if kind.workers > most:
        raise BenchError(
            f"{kind.name} has {kind.workers} workers, and this machine of {processors} "
            f"processors runs {most} at most: choose a smaller type",
            USAGE,
        )
    exchanged = kind.workers * WORKER_BYTES + kind.chips * ARRAYS_PER_CHIP * largest_bytes
    needed = max(PRODUCT_BYTES, exchanged)
    if needed > available_bytes:
        raise BenchError(
            f"{kind.name} takes {needed >> 20} MiB of memory here, and {available_bytes >> 20} MiB "
            "are available: choose a smaller type",
            USAGE,
        )


def available_bytes(meminfo: Path = _MEMINFO, limit: Path = _LIMIT) -> int:
    """Return the bytes that programs could still take; 2**62 where nothing says it.

    A container has no more than its control group may, whatever the machine has.
    """
    machine = [int(line.split()[1]) << 10 for line in _lines(meminfo) if "MemAvailable" in line]
    container = [int(line) for line in _lines(limit) if line.isdecimal()]
    return min([*machine, *container], default=1 << 62)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").splitlines()
    except OSError:
        return []
