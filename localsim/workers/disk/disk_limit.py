"""The size limit of a worker's disk, for file systems that know no limit for a directory.

While programs run on a worker, its disk is measured every few seconds, in a thread, by adding up
its files. When it holds more than the limit, the disk is full: what is written from then on fails
with ENOSPC (see isolation/inside/full_disk.py for what that covers), until so much was deleted that
it is below the limit again. Between two measurements a program can write more than the limit.
"""

import asyncio
import time
from typing import Protocol

from localsim.workers.disk.slice_disk import WorkerDisk

LIMIT_BYTES = 20 << 30
SHORTEST_S, LONGEST_S = 2.0, 60.0
_MEASURING_SHARE = 0.02
"""The largest share of the time that goes into measuring."""
_FASTEST_BYTES_PER_S = 500e6
"""The fastest that a program is expected to write."""


class Fillable(Protocol):
    """A worker's system, as far as its disk goes."""

    async def limit_disk(self, *, full: bool) -> None:
        """Leave no room on the disk, or free it again."""

    async def settle_disk(self) -> None:
        """Take deletions made since it is full to where they are measured."""


async def enforce_limit(
    disk: WorkerDisk,
    host: Fillable,
    *,
    busy: asyncio.Event,
    limit_bytes: int = LIMIT_BYTES,
) -> None:
    """Watch one worker's disk until cancelled; raises OSError when the worker cannot be told.

    `busy` is set while programs run: without any, nothing is written and nothing measured.
    """
    is_full = False
    period_s = SHORTEST_S
    while True:
        await busy.wait()
        await asyncio.sleep(period_s)
        if is_full:
            await host.settle_disk()
        started_s = time.monotonic()
        used_bytes = await asyncio.to_thread(disk.used_bytes)
        took_s = time.monotonic() - started_s
        if is_full != (used_bytes >= limit_bytes):
            is_full = not is_full
            await host.limit_disk(full=is_full)
        period_s = _period_s(took_s, abs(limit_bytes - used_bytes))


def _period_s(took_s: float, room_bytes: int) -> float:
    """Seconds until the next measurement: few near the limit, many when measuring takes long."""
    wanted_s = max(took_s / _MEASURING_SHARE, room_bytes / _FASTEST_BYTES_PER_S)
    return min(max(wanted_s, SHORTEST_S), LONGEST_S)
