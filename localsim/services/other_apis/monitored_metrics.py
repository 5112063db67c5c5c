"""The metrics of Cloud TPU in Cloud Monitoring: what each is, and its values of a sample.

Names, kinds, units, resources and metric labels: Google's lists of metrics and of monitored
resources (docs.cloud.google.com/monitoring/api/metrics_gcp, .../api/resources) and "Monitor Cloud
TPU VMs", which has the sampling of 60 s and the delay of up to 180 s. The labels of
tpu.googleapis.com/GceTpuWorker are project number, location and worker_id there and in GKE's own
agent; neither says what a worker_id looks like: here it is the name of the worker's VM, as its
guest attribute `hostname` has it. Assumed too: node_id is the node's name and the worker_id of
tpu_worker its number, as in the log entries of that resource; accelerator_id is the VM's id and the
number of the device, as GKE's accelerator_id is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from localsim.rules.project.worker_samples import MonitoredWorker, WorkerSample

SERVICE = "tpu.googleapis.com"
SAMPLE_S, DELAY_S = 60, 180
TPU_WORKER = "tpu_worker"
GCE_TPU_WORKER = f"{SERVICE}/GceTpuWorker"
RESOURCE_LABELS: Mapping[str, Mapping[str, str]] = {
    TPU_WORKER: {
        "project_id": "The identifier of the project of the node.",
        "zone": "The zone of the node.",
        "node_id": "The identifier of the node.",
        "worker_id": "The identifier of the worker of the node.",
    },
    GCE_TPU_WORKER: {
        "resource_container": "The number of the project of the worker.",
        "location": "The zone of the worker.",
        "worker_id": "The identifier of the worker.",
    },
}
TITLES = {TPU_WORKER: "Cloud TPU Worker", GCE_TPU_WORKER: "GCE TPU Worker"}

Values = Iterable[tuple[str, float | int | None]]
"""The value of the metric's label, empty without one, and what was measured."""


@dataclass(frozen=True, slots=True)
class MonitoredMetric:
    """One metric."""

    resource: str
    kind: str
    value_type: str
    unit: str
    description: str
    values: Callable[[MonitoredWorker, WorkerSample], Values]
    label: str = ""


def _one(value: Callable[[WorkerSample], float | int | None]) -> Callable[..., Values]:
    return lambda _, sample: [("", value(sample))]


def _of_chips(worker: MonitoredWorker, sample: WorkerSample) -> Values:
    """The idle time of each chip: that of its devices is the same."""
    del worker
    chips = len(sample.duty_cycles) or 1
    each = max(1, len(sample.devices) // chips)
    return [(str(chip), int(device.idle_s)) for chip, device in enumerate(sample.devices[::each])]


def _of_devices(read: Callable[[WorkerSample], Iterable[float | int]]) -> Callable[..., Values]:
    return lambda worker, sample: [
        (f"{worker.instance_id}-{number}", value) for number, value in enumerate(read(sample))
    ]


def _never(_worker: MonitoredWorker, _sample: WorkerSample) -> Values:
    """Nothing: the simulated chip does not tell it, and a 0 would be false."""
    return ()


METRICS: Mapping[str, MonitoredMetric] = {
    f"{SERVICE}/{name}": metric
    for name, metric in {
        "cpu/utilization": MonitoredMetric(
            TPU_WORKER, "GAUGE", "DOUBLE", "%",
            "Utilization of the processors of the worker in percent; it may exceed 100.",
            _one(lambda sample: sample.cpu_percent), "core",
        ),
        "memory/usage": MonitoredMetric(
            TPU_WORKER, "GAUGE", "INT64", "By", "Memory in use on the worker.",
            _one(lambda sample: sample.memory_bytes),
        ),
        "network/received_bytes_count": MonitoredMetric(
            TPU_WORKER, "DELTA", "INT64", "By", "Bytes that the worker received.",
            _one(lambda sample: sample.received_bytes),
        ),
        "network/sent_bytes_count": MonitoredMetric(
            TPU_WORKER, "DELTA", "INT64", "By", "Bytes that the worker sent.",
            _one(lambda sample: sample.sent_bytes),
        ),
        "tpu/mxu/utilization": MonitoredMetric(
            TPU_WORKER, "GAUGE", "DOUBLE", "%", "Utilization of the matrix units.", _never,
        ),
        "tpu/tensorcore/idle_duration": MonitoredMetric(
            TPU_WORKER, "GAUGE", "INT64", "s",
            "Seconds since the TensorCores of a chip were last busy.", _of_chips, "chip",
        ),
        "accelerator/duty_cycle": MonitoredMetric(
            GCE_TPU_WORKER, "GAUGE", "DOUBLE", "%",
            "Percentage of the sampling time that the accelerator was busy.",
            _of_devices(lambda sample: sample.duty_cycles), "accelerator_id",
        ),
        "accelerator/tensorcore_utilization": MonitoredMetric(
            GCE_TPU_WORKER, "GAUGE", "DOUBLE", "%", "Utilization of the TensorCore.",
            _never, "accelerator_id",
        ),
        "accelerator/memory_bandwidth_utilization": MonitoredMetric(
            GCE_TPU_WORKER, "GAUGE", "DOUBLE", "%", "Used part of the memory's bandwidth.",
            _never, "accelerator_id",
        ),
        "accelerator/memory_used": MonitoredMetric(
            GCE_TPU_WORKER, "GAUGE", "INT64", "By", "Memory in use on the accelerator.",
            _of_devices(lambda sample: (each.used_bytes for each in sample.devices)),
            "accelerator_id",
        ),
        "accelerator/memory_total": MonitoredMetric(
            GCE_TPU_WORKER, "GAUGE", "INT64", "By", "Memory of the accelerator.",
            _of_devices(lambda sample: (each.total_bytes for each in sample.devices)),
            "accelerator_id",
        ),
    }.items()
}  # fmt: skip
"""Type -> metric. One that the simulator never measures has no points."""


def resource_labels(
    resource: str, worker: MonitoredWorker, project: str, number: int
) -> dict[str, str]:
    """The labels of a worker as a resource of that type."""
    if resource == GCE_TPU_WORKER:
        return {
            "resource_container": str(number),
            "location": worker.zone,
            "worker_id": worker.hostname,
        }
    return {
        "project_id": project,
        "zone": worker.zone,
        "node_id": worker.node,
        "worker_id": str(worker.worker_id),
    }
