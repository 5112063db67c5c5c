"""The samples of a node: one that is taken now, and what was watched before."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tpuctl.metrics.sample_history import SampleHistory
from tpuctl.metrics.samples import Sample, WorkerSamples, merge
from tpuctl.operations.metrics.live_samples import watch_workers
from tpuctl.operations.remote.fanout import WorkerReach

LOOK_S = 1.0
"""Rates are those of this time."""


@dataclass(frozen=True, slots=True)
class NodeMetrics:
    """The samples of a node."""

    series: list[WorkerSamples]
    missing: dict[int, str]
    """Why each worker that was not measured was not."""
    clock_off_s: dict[int, float] = field(default_factory=dict)
    """By how much the clock of each worker is ahead of ours at least; behind it is negative."""

    @property
    def measured(self) -> frozenset[int]:
        """The workers that were measured now."""
        return frozenset(self.clock_off_s)


def node_metrics(
    reach: WorkerReach,
    home: Path,
    since_s: float | None,
    now: Callable[[], float] = time.time,
) -> NodeMetrics:
    """Measure every worker once, and keep it; with `since_s` all that was kept since then."""
    taken: list[WorkerSamples] = []
    clock_off_s: dict[int, float] = {}
    asked_s = now()

    def keep(worker_id: int, sample: Sample) -> None:
        taken.append(WorkerSamples(0, worker_id, [sample]))
        clock_off_s[worker_id] = clock_difference_s(sample.time_s, asked_s, now())

    missing = asyncio.run(watch_workers(reach, keep, every_s=LOOK_S, count=1))
    history, node = SampleHistory(home), str(reach.node.node_id)
    history.add(node, taken)
    before = [] if since_s is None else history.read(node, since_s)
    chosen = {worker.worker_id for worker in reach.workers}
    kept = [each for each in before if each.worker_id in chosen]
    return NodeMetrics(merge([*kept, *taken]), missing, clock_off_s)


def clock_difference_s(told_s: float, asked_s: float, heard_s: float) -> float:
    """By how much a clock that told a time between two moments of ours differs from ours at least.

    Positive where it is ahead, negative where it is behind.
    """
    return max(0.0, told_s - heard_s) + min(0.0, told_s - asked_s)
