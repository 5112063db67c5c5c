"""What was measured on the project's workers, as Cloud Monitoring keeps it: bounded, in memory."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

KEPT_S = 86400.0
MOST_SAMPLES = 40_000
"""The most samples of all workers together: about 40 MiB."""


class MonitoredWorker(NamedTuple):
    """A worker as time series name it."""

    zone: str
    node: str
    worker_id: int
    hostname: str
    instance_id: str


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One device of a worker while a program holds the chips."""

    used_bytes: int
    total_bytes: int
    idle_s: float


@dataclass(frozen=True, slots=True)
class WorkerSample:
    """What was measured on one worker at a moment; None and nothing for what is not known."""

    time_s: float
    since_s: float
    """The moment of the sample before, from which on bytes are counted."""
    memory_bytes: int
    cpu_percent: float | None = None
    received_bytes: int | None = None
    sent_bytes: int | None = None
    devices: tuple[DeviceSample, ...] = ()
    duty_cycles: tuple[float, ...] = ()


class WorkerSampleStore:
    """The samples of workers in the order of time; the oldest are dropped."""

    def __init__(self) -> None:
        self._samples: dict[MonitoredWorker, deque[WorkerSample]] = {}
        self._count = 0

    def add(self, worker: MonitoredWorker, sample: WorkerSample) -> None:
        """Keep a sample that is newer than the worker's others."""
        self._samples.setdefault(worker, deque()).append(sample)
        self._count += 1
        self._drop_until(sample.time_s - KEPT_S)
        while self._count > MOST_SAMPLES:
            self._drop_until(min(each[0].time_s for each in self._samples.values()))

    def items(self) -> Iterator[tuple[MonitoredWorker, tuple[WorkerSample, ...]]]:
        """Yield every worker by its name, with its samples."""
        for worker in sorted(self._samples):
            yield worker, tuple(self._samples[worker])

    def clear(self) -> None:
        """Forget every sample."""
        self._samples.clear()
        self._count = 0

    def _drop_until(self, moment_s: float) -> None:
        """Drop what was measured at that moment or before."""
        for worker in list(self._samples):
            samples = self._samples[worker]
            while samples and samples[0].time_s <= moment_s:
                samples.popleft()
                self._count -= 1
            if not samples:
                del self._samples[worker]
