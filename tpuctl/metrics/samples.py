"""Samples of workers, and which of them somebody wants to see."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured on one worker at one moment.

    A name is `host.WHAT_UNIT`, `chip.WHAT_UNIT/DEVICE` or, of what the program tells,
    `program.WHAT`; docs/metrics.md lists them. What is not known is missing.
    """

    time_s: float
    """In seconds of the epoch, by the worker's clock."""
    values: Mapping[str, float]


class WorkerSamples(NamedTuple):
    """The samples of one worker of one attempt in the order of time; of a node, attempt 0."""

    attempt: int
    worker_id: int
    samples: Sequence[Sample]


def merge(series: Iterable[WorkerSamples]) -> list[WorkerSamples]:
    """The samples of each worker of each attempt together; one that comes twice counts once."""
    found: dict[tuple[int, int], dict[float, Sample]] = {}
    for attempt, worker_id, samples in series:
        times = found.setdefault((attempt, worker_id), {})
        times.update((sample.time_s, sample) for sample in samples)
    return [
        WorkerSamples(*source, [times[time_s] for time_s in sorted(times)])
        for source, times in sorted(found.items())
    ]


def choose(
    series: Iterable[WorkerSamples], since_s: float = 0.0, patterns: Sequence[str] = ()
) -> Iterator[WorkerSamples]:
    """The samples from a time on, and of them the metrics that a pattern names (all without)."""
    wanted = tuple(patterns)
    for attempt, worker_id, samples in series:
        later = (sample for sample in samples if sample.time_s >= since_s)
        chosen = [_only(sample, wanted) if wanted else sample for sample in later]
        yield WorkerSamples(attempt, worker_id, [sample for sample in chosen if sample.values])


@lru_cache(maxsize=4096)
def names_metric(pattern: str, name: str) -> bool:
    """Whether a pattern such as `loss`, `hbm_*` or `chip.held` names a metric."""
    whole = name.partition("/")[0]
    bare = whole.partition(".")[2]
    return any(fnmatchcase(each, pattern) for each in (name, whole, bare))


def device_values(sample: Sample, name: str) -> list[float]:
    """The values that a metric of the chips has, by device."""
    found = [
        (int(device), value)
        for key, value in sample.values.items()
        if (device := key.removeprefix(f"{name}/")) != key and device.isdigit()
    ]
    return [value for _, value in sorted(found)]


def _only(sample: Sample, patterns: tuple[str, ...]) -> Sample:
    values = sample.values
    return Sample(sample.time_s, {name: values[name] for name in _named(tuple(values), patterns)})


@lru_cache(maxsize=256)
def _named(names: tuple[str, ...], patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Those names that a pattern names; the samples of a worker have the same names."""
    return tuple(name for name in names if any(names_metric(each, name) for each in patterns))
