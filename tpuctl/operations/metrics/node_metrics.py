"""The samples of a node: one that is taken now, and what was watched before."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from tpuctl.metrics.sample_history import SampleHistory
from tpuctl.metrics.samples import Sample, WorkerSamples, merge
from tpuctl.operations.metrics.live_samples import watch_workers
from tpuctl.operations.remote.fanout import WorkerReach

LOOK_S = 1.0
"""Rates are those of this time."""


@dataclass(frozen=True, slots=True)
class NodeMetrics:
    """The samples of a node, and a line for each worker that did not tell its own."""

    series: list[WorkerSamples]
    missing: list[str]


def node_metrics(reach: WorkerReach, home: Path, since_s: float | None) -> NodeMetrics:
    """Measure every worker once, and keep it; with `since_s` all that was kept since then."""
    taken: list[WorkerSamples] = []

    def keep(worker_id: int, sample: Sample) -> None:
        taken.append(WorkerSamples(0, worker_id, [sample]))

    missing = asyncio.run(watch_workers(reach, keep, every_s=LOOK_S, count=1))
    history, node = SampleHistory(home), str(reach.node.node_id)
    history.add(node, taken)
    before = [] if since_s is None else history.read(node, since_s)
    chosen = {worker.worker_id for worker in reach.workers}
    return NodeMetrics(
        merge([*(each for each in before if each.worker_id in chosen), *taken]), missing
    )
