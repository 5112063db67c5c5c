"""Time series of Cloud Monitoring as samples of workers, by the names that tpuctl has for them.

Metrics and their labels: Google's lists of metrics and of monitored resources
(docs.cloud.google.com/monitoring/api/metrics_gcp, .../api/resources). `tpu_worker` names the node
and the number of the worker. `tpu.googleapis.com/GceTpuWorker` has one worker_id alone, and Google
does not say what it is; it is taken for the name of the worker's VM, which the guest attributes of
a node tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import TYPE_CHECKING

from tpuctl.metrics.samples import Sample, WorkerSamples

if TYPE_CHECKING:
    from tpuctl.api.monitoring import TimeSeries

PERIOD_S = 60.0
LATEST_S = 240.0
"""A minute is measured, and seen up to 180 s later."""
SILENT_S = 600.0
"""A worker of which nothing was measured for longer reports nothing."""
GAP_S = 150.0
"""The line of a picture is broken where there is no point for longer."""
TPU_WORKER = "tpu_worker"
GCE_TPU_WORKER = "tpu.googleapis.com/GceTpuWorker"


@dataclass(frozen=True, slots=True)
class MonitoredMetric:
    """What a metric of Cloud Monitoring is among tpuctl's."""

    name: str
    resource: str = TPU_WORKER
    device_label: str = ""
    """The label of the metric whose last number is the device."""
    is_count: bool = False
    """Its points are counts, which become rates."""


METRICS: Mapping[str, MonitoredMetric] = {
    "cpu/utilization": MonitoredMetric("host.cpu_percent"),  # a series for each core
    "memory/usage": MonitoredMetric("host.memory_used_bytes"),
    "network/received_bytes_count": MonitoredMetric(
        "host.network_received_bytes_per_s", is_count=True
    ),
    "network/sent_bytes_count": MonitoredMetric("host.network_sent_bytes_per_s", is_count=True),
    "tpu/tensorcore/idle_duration": MonitoredMetric("chip.idle_s", device_label="chip"),
    **{
        f"accelerator/{metric}": MonitoredMetric(name, GCE_TPU_WORKER, "accelerator_id")
        for metric, name in {
            "duty_cycle": "chip.duty_cycle_percent",
            "tensorcore_utilization": "chip.tensorcore_percent",
            "memory_bandwidth_utilization": "chip.hbm_bandwidth_percent",
            "memory_used": "chip.hbm_used_bytes",
            "memory_total": "chip.hbm_total_bytes",
        }.items()
    },
}
"""Metric below tpu.googleapis.com/ -> what it is here."""


@dataclass(frozen=True, slots=True)
class MonitoredNode:
    """A node whose workers are wanted, and for which time."""

    name: str
    zone: str
    start_s: float
    end_s: float
    hostnames: Mapping[str, int] = field(default_factory=dict)
    """Name of a worker's VM -> the worker's number in the node."""
    attempt: int = 0
    first: int = 0
    """The number that the node's worker 0 has where several nodes work together."""


def series_filter(metric: str, zone: str, nodes: Sequence[MonitoredNode]) -> str | None:
    """The filter for a metric of the workers of nodes in a zone, and maybe of others.

    None where no worker is known by the name that its series have.
    """
    about = METRICS[metric]
    parts = [f'metric.type = "tpu.googleapis.com/{metric}"', f'resource.type = "{about.resource}"']
    if about.resource == TPU_WORKER:
        names = sorted({node.name for node in nodes})
        return " AND ".join([*parts, f'resource.labels.zone = "{zone}"', _one_of("node_id", names)])
    hostnames = sorted({name for node in nodes for name in node.hostnames})
    if not hostnames:
        return None
    return " AND ".join(
        [*parts, f'resource.labels.location = "{zone}"', _one_of("worker_id", hostnames)]
    )


def samples_of(
    found: Iterable[tuple[str, str, TimeSeries]], nodes: Sequence[MonitoredNode]
) -> list[WorkerSamples]:
    """The samples of the nodes' workers, one for each minute that has points.

    Each series comes with its metric and its zone; those of other workers are left out.
    """
    minutes: dict[tuple[int, int], dict[float, dict[str, list[float]]]] = {}
    for metric, zone, series in found:
        about = METRICS[metric]
        for node in nodes:
            worker_id = _worker_id(about, series, node) if node.zone == zone else None
            if worker_id is None:
                continue
            name = _name(about, series)
            rows = minutes.setdefault((node.attempt, node.first + worker_id), {})
            for point in series.points:
                if node.start_s <= point.end_s <= node.end_s:
                    minute = rows.setdefault(point.end_s // PERIOD_S * PERIOD_S, {})
                    elapsed_s = (point.end_s - point.start_s) if about.is_count else 1.0
                    if elapsed_s > 0:
                        minute.setdefault(name, []).append(point.value / elapsed_s)
    return [
        WorkerSamples(attempt, worker_id, _samples(rows))
        for (attempt, worker_id), rows in sorted(minutes.items())
    ]


def _samples(rows: Mapping[float, Mapping[str, list[float]]]) -> list[Sample]:
    """A sample for each minute; a host has the mean of its cores."""
    return [
        Sample(
            minute_s, {name: sum(each) / len(each) for name, each in sorted(rows[minute_s].items())}
        )
        for minute_s in sorted(rows)
        if rows[minute_s]
    ]


def _worker_id(about: MonitoredMetric, series: TimeSeries, node: MonitoredNode) -> int | None:
    """The number of the worker of the node that a series is about; None for another one's."""
    worker_id = series.resource.get("worker_id", "")
    if about.resource == GCE_TPU_WORKER:
        return node.hostnames.get(worker_id)
    is_its = series.resource.get("node_id") == node.name and worker_id.isdecimal()
    return int(worker_id) if is_its else None


def _name(about: MonitoredMetric, series: TimeSeries) -> str:
    """The name of a series among the metrics, with its device where it has one."""
    if not about.device_label:
        return about.name
    device = series.labels.get(about.device_label, "").rpartition("-")[2]
    return f"{about.name}/{device}" if device.isdecimal() else about.name


def _one_of(label: str, names: Sequence[str]) -> str:
    """A restriction to names, or to what all begin with: a filter has at most 2,048 characters."""
    if len(names) == 1:
        return f'resource.labels.{label} = "{names[0]}"'
    return f'resource.labels.{label} = starts_with("{commonprefix(names)}")'
