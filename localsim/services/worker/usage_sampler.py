"""Measures every worker once a minute of the simulated clock, as Cloud Monitoring's agents do.

A clock that jumps over several minutes leaves one sample, at the last of them: what lies between
was not measured.
"""

import asyncio
import os
import time
from dataclasses import replace

from localsim.clock import Clock
from localsim.rules.project.worker_samples import (
    DeviceSample,
    MonitoredWorker,
    WorkerSample,
    WorkerSampleStore,
)
from localsim.services.worker.chip_lock_server import ChipLockServers
from localsim.workers.isolation.interface import HostUsage
from localsim.workers.metadata_tree import instance_id
from localsim.workers.slices import Slices
from localsim.workers.worker import Worker

SAMPLE_S = 60.0
SHORTEST_PAUSE_S = 1.0
"""Real seconds between two samples, however fast the simulated time is."""


SHORTEST_ELAPSED_S = 0.01
"""The kernel counts in ticks of this length."""


class UsageSampler:
    """Keeps a sample of every worker, each time that the clock has reached a full minute."""

    def __init__(
        self, slices: Slices, chips: ChipLockServers, samples: WorkerSampleStore, clock: Clock
    ) -> None:
        self._slices = slices
        self._chips = chips
        self._samples = samples
        self._clock = clock
        self._sampled_s = _minute(clock.now())
        self._before: dict[MonitoredWorker, tuple[float, float, HostUsage]] = {}
        """Worker -> the simulated and the real time of its last sample, and its counts."""
        self._turn = asyncio.Lock()

    async def live(self) -> None:
        """Measure when it is due, until cancelled."""
        while True:
            await self._clock.sleep_until(self._sampled_s + SAMPLE_S)
            if self._clock.now() >= self._sampled_s + SAMPLE_S:
                await self.catch_up()
                await asyncio.sleep(SHORTEST_PAUSE_S)

    async def catch_up(self) -> None:
        """Measure now if a minute has become full since the last time."""
        async with self._turn:
            minute_s = _minute(self._clock.now())
            if minute_s <= self._sampled_s:
                return
            self._sampled_s = minute_s
            before, self._before = self._before, {}
            for name, worker, usage in await self._slices.usage():
                monitored = monitored_worker(name, worker)
                now = (minute_s, time.monotonic(), usage)
                self._before[monitored] = now
                sample = self._sample(worker, before.get(monitored), now)
                self._samples.add(monitored, sample)

    def _sample(
        self,
        worker: Worker,
        before: tuple[float, float, HostUsage] | None,
        now: tuple[float, float, HostUsage],
    ) -> WorkerSample:
        minute_s, real_s, usage = now
        holders = self._chips.holders(worker)
        is_held = holders is not None and holders.are_held
        devices = holders.devices() if holders is not None and is_held else ()
        sample = WorkerSample(
            time_s=minute_s,
            since_s=minute_s,
            memory_bytes=usage.memory_bytes,
            devices=tuple(
                DeviceSample(each.used_bytes, each.total_bytes, each.idle_s) for each in devices
            ),
            duty_cycles=holders.duty_cycles() if holders is not None and is_held else (),
        )
        if before is None:
            return sample
        return replace(
            sample,
            since_s=before[0],
            cpu_percent=_busy_percent(before[2], usage, real_s - before[1]),
            received_bytes=_grown(before[2].received_bytes, usage.received_bytes),
            sent_bytes=_grown(before[2].sent_bytes, usage.sent_bytes),
        )


def monitored_worker(name: str, worker: Worker) -> MonitoredWorker:
    """A worker as time series name it; `name` is its slice's, projects/P/locations/Z/nodes/N."""
    _, _, _, zone, _, node = name.split("/")
    return MonitoredWorker(zone, node, worker.index, worker.hostname, instance_id(worker.hostname))


def _busy_percent(before: HostUsage, now: HostUsage, elapsed_s: float) -> float:
    """The share of all processors that worked for a worker since the sample before."""
    busy = max(0.0, now.busy_s - before.busy_s) / max(elapsed_s, SHORTEST_ELAPSED_S)
    return 100 * busy / _processors()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _grown(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else max(0, now - before)


def _minute(moment_s: float) -> float:
    return moment_s // SAMPLE_S * SAMPLE_S
