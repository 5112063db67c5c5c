"""What the newest samples of a worker say together: means, extremes, since when."""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from tpuctl.byte_size import size_text
from tpuctl.metrics.chip_state import HELD, ChipState, chip_use
from tpuctl.metrics.samples import Sample, WorkerSamples, device_values
from tpuctl.models.duration import age

LOOK_S = 300.0
"""Rates are judged over five minutes: a save or a compilation is shorter than most of that."""
LEAST_SAMPLES = 6
"""A minute of them, at one each 10 s; fewer say nothing about a rate."""


def recent(worker: WorkerSamples) -> Sequence[Sample]:
    """The samples of the last five minutes before the worker's newest one."""
    if not worker.samples:
        return ()
    since_s = worker.samples[-1].time_s - LOOK_S
    return [each for each in worker.samples if each.time_s >= since_s]


def looked_back(series: Sequence[WorkerSamples]) -> str:
    """Over which time the newest samples are judged, as text: five minutes, or what there is."""
    spans = [found[-1].time_s - found[0].time_s for each in series if (found := recent(each))]
    return age(max(spans, default=0.0))


def values(samples: Sequence[Sample], name: str) -> list[float]:
    """The value of a metric in each sample that has it; the mean of a worker's devices."""
    found = []
    for sample in samples:
        devices = device_values(sample, name)
        if devices:
            found.append(sum(devices) / len(devices))
        elif name in sample.values:
            found.append(sample.values[name])
    return found


def mean(worker: WorkerSamples, name: str) -> float | None:
    """The mean of the last five minutes; None where fewer than a minute of samples have it."""
    found = values(recent(worker), name)
    return sum(found) / len(found) if len(found) >= LEAST_SAMPLES else None


def means(series: Sequence[WorkerSamples], name: str) -> dict[int, float]:
    """The mean of each worker that has one."""
    found = {each.worker_id: mean(each, name) for each in series}
    return {worker_id: value for worker_id, value in found.items() if value is not None}


def median_of_others(found: Mapping[int, float], worker_id: int) -> float:
    """The median of all workers but one, of which there must be others."""
    return median(value for other, value in found.items() if other != worker_id)


class Fullness(NamedTuple):
    """How much of something is used, such as the memory of a device ("" where there is but one)."""

    used: float
    total: float
    device: str

    @property
    def share(self) -> float:
        """The used part of the whole."""
        return self.used / self.total

    def __str__(self) -> str:
        used, total = size_text(self.used), size_text(self.total)
        return f"{used} of {total} ({100 * self.share:.0f} %) are used"


def fullest(worker: WorkerSamples, used: str, total: str) -> Fullness | None:
    """The fullest device of the last five minutes, by the metrics of used and total."""
    found = [
        Fullness(value, whole, name.partition("/")[2])
        for sample in recent(worker)
        for name, value in sample.values.items()
        if name.partition("/")[0] == used
        and (whole := sample.values.get(total + name.removeprefix(used), 0.0)) > 0
    ]
    return max(found, key=lambda each: each.share, default=None)


def chip_state(sample: Sample) -> ChipState | None:
    """Who uses the chips in a sample; None where it was not measured."""
    return chip_use(sample, sample.time_s, math.inf).state if HELD in sample.values else None


def state_since(worker: WorkerSamples, state: ChipState) -> float | None:
    """For how many seconds every sample up to the newest has the state; None: it has not now."""
    first_s = None
    for sample in reversed(worker.samples):
        if chip_state(sample) != state:
            break
        first_s = sample.time_s
    return None if first_s is None else worker.samples[-1].time_s - first_s


def had_other_state(worker: WorkerSamples, state: ChipState, within_s: float) -> bool:
    """Whether a sample of the last so many seconds has another state of the chips."""
    since_s = worker.samples[-1].time_s - within_s
    states = {chip_state(each) for each in worker.samples if each.time_s >= since_s}
    return bool(states - {state, None})
