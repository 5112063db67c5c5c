"""The samples of a node or of a job as Cloud Monitoring has them: no worker is asked."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tpuctl.errors import NotFoundError, TransientError
from tpuctl.metrics.monitored_samples import (
    LATEST_S,
    METRICS,
    SILENT_S,
    MonitoredNode,
    samples_of,
    series_filter,
)
from tpuctl.metrics.samples import WorkerSamples
from tpuctl.models.job import Attempt, JobRecord
from tpuctl.operations.workers.access import hostnames

if TYPE_CHECKING:
    from tpuctl.api.monitoring import MonitoringApi, TimeSeries
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.models.node import Node

CALLS_AT_ONCE = 8


def monitored_node(
    monitoring: MonitoringApi, api: TpuApi, node: Node, now_s: float, since_s: float | None
) -> list[WorkerSamples]:
    """The newest sample of every worker of a node; with `since_s` all since then.

    Raises TransientError where there is none, and what Cloud Monitoring raises.
    """
    start_s = now_s - SILENT_S if since_s is None else since_s
    known = _hostnames(api, node)
    wanted = MonitoredNode(node.name, node.zone, max(start_s, node.created_s), now_s, known)
    found = read_monitored(monitoring, [wanted])
    if not found:
        raise TransientError(
            f"Cloud Monitoring has no figures of node {node.name!r} of this time",
            hint=f"they come {LATEST_S / 60:.0f} minutes after it is READY; "
            f"run: tpuctl node describe {node.name}",
        )
    if since_s is not None:
        return found
    return [each._replace(samples=each.samples[-1:]) for each in found]


def monitored_job(
    monitoring: MonitoringApi, api: TpuApi, job: JobRecord, now_s: float, since_s: float
) -> tuple[list[WorkerSamples], list[str]]:
    """The samples of all attempts since a time, and a line for each whose chips are not told."""
    nodes: list[MonitoredNode] = []
    missing: list[str] = []
    for attempt in job.attempts:
        wanted = _nodes_of(api, attempt, now_s, since_s)
        nodes += wanted
        if wanted and not any(node.hostnames for node in wanted):
            missing.append(
                f"attempt {attempt.number}: its slice is gone, and Cloud Monitoring does "
                "not name the chips of a slice that is"
            )
    return read_monitored(monitoring, nodes), missing


def read_monitored(
    monitoring: MonitoringApi, nodes: Sequence[MonitoredNode]
) -> list[WorkerSamples]:
    """Read every metric of nodes: one call for each metric and zone, some at a time."""
    calls: list[tuple[str, str, str, float, float]] = []
    for zone in sorted({node.zone for node in nodes}):
        there = [node for node in nodes if node.zone == zone]
        # The start itself is left out by Google.
        start_s = min(node.start_s for node in there) - 1e-3
        end_s = max(node.end_s for node in there)
        for metric in METRICS:
            where = series_filter(metric, zone, there)
            if where is not None and start_s < end_s:
                calls.append((metric, zone, where, start_s, end_s))

    def read(call: tuple[str, str, str, float, float]) -> list[tuple[str, str, TimeSeries]]:
        metric, zone, where, start_s, end_s = call
        return [(metric, zone, each) for each in monitoring.time_series(where, start_s, end_s)]

    with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
        found = [each for part in pool.map(read, calls) for each in part]
    return [each for each in samples_of(found, nodes) if each.samples]


def _nodes_of(api: TpuApi, attempt: Attempt, now_s: float, since_s: float) -> list[MonitoredNode]:
    """The nodes of an attempt and the time in which they were its own; none before they were."""
    end_s = now_s if attempt.ended_s is None else attempt.ended_s
    if attempt.ready_s is None or not attempt.node or end_s < since_s:
        return []
    start_s = max(since_s, attempt.ready_s)
    workers = attempt.worker_count // max(1, attempt.slices)
    return [
        MonitoredNode(
            name,
            attempt.zone,
            start_s,
            end_s,
            _known_hostnames(api, attempt, name),
            attempt.number,
            index * workers,
        )
        for index, name in enumerate(attempt.nodes)
    ]


def _known_hostnames(api: TpuApi, attempt: Attempt, name: str) -> dict[str, int]:
    """The host names of a node that is still the attempt's own; else none."""
    if attempt.deleted_s is not None:
        return {}
    try:
        node = api.get_node(attempt.zone, name)
    except NotFoundError:
        return {}
    return _hostnames(api, node) if node.node_id in attempt.node_ids else {}


def _hostnames(api: TpuApi, node: Node) -> dict[str, int]:
    return {name: worker_id for worker_id, name in hostnames(api, node).items()}
