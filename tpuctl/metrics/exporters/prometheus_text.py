"""Metrics in the text format that Prometheus reads.

The format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format; names
and units: https://prometheus.io/docs/practices/naming/.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Gauge(NamedTuple):
    """A metric's name, what a value is multiplied with, what it tells, and its type."""

    name: str
    scale: float
    text: str
    kind: str = "gauge"
    """`gauge`, `counter` or `histogram`."""


class GaugeValue(NamedTuple):
    """One value of a gauge, with the labels that say whose it is."""

    name: str
    labels: Mapping[str, str]
    value: float


_W = "tpuctl_worker_"
_MICRO = 1e-6
SAMPLED = {
    "host.cpu_percent": Gauge(f"{_W}cpu_percent", 1, "All processors of the host together."),
    "host.load_1m": Gauge(f"{_W}load1", 1, "Processes that want a processor."),
    "host.memory_used_bytes": Gauge(f"{_W}memory_used_bytes", 1, "Memory of the host in use."),
    "host.memory_total_bytes": Gauge(f"{_W}memory_total_bytes", 1, "Memory of the host."),
    "host.disk_used_bytes": Gauge(f"{_W}disk_used_bytes", 1, "Disk of the home directory in use."),
    "host.disk_total_bytes": Gauge(f"{_W}disk_total_bytes", 1, "Disk of the home directory."),
    "host.disk_read_bytes_per_s": Gauge(
        f"{_W}disk_read_bytes_per_second", 1, "Read from all disks."
    ),
    "host.disk_written_bytes_per_s": Gauge(
        f"{_W}disk_written_bytes_per_second", 1, "Written to all disks."
    ),
    "host.network_received_bytes_per_s": Gauge(
        f"{_W}network_received_bytes_per_second", 1, "Received from the network."
    ),
    "host.network_sent_bytes_per_s": Gauge(
        f"{_W}network_sent_bytes_per_second", 1, "Sent to the network."
    ),
    "chip.held": Gauge(f"{_W}chips_held", 1, "1 while a process holds the chips."),
    "chip.duty_cycle_percent": Gauge(
        f"{_W}chip_duty_cycle_percent", 1, "How busy the TensorCores are."
    ),
    "chip.idle_s": Gauge(f"{_W}chip_idle_seconds", 1, "Since when the TensorCores are idle."),
    "chip.hbm_used_bytes": Gauge(f"{_W}chip_hbm_used_bytes", 1, "Memory of the device in use."),
    "chip.hbm_total_bytes": Gauge(f"{_W}chip_hbm_total_bytes", 1, "Memory of the device."),
    "chip.hbm_bandwidth_percent": Gauge(
        f"{_W}chip_hbm_bandwidth_percent", 1, "Bandwidth of the memory in use."
    ),
    "chip.queue_size": Gauge(f"{_W}chip_queue_size", 1, "Programs that wait."),
    "chip.execution_us": Gauge(
        f"{_W}chip_execution_seconds", _MICRO, "Mean time of a program on the chip."
    ),
    "chip.dcn_transfer_us": Gauge(
        f"{_W}chip_dcn_transfer_seconds", _MICRO, "Mean time of a transfer between slices."
    ),
    "chip.host_to_device_us": Gauge(
        f"{_W}chip_host_to_device_seconds", _MICRO, "Mean time of a transfer to the device."
    ),
    "chip.device_to_host_us": Gauge(
        f"{_W}chip_device_to_host_seconds", _MICRO, "Mean time of a transfer from the device."
    ),
    "chip.collective_us": Gauge(
        f"{_W}chip_collective_seconds", _MICRO, "Mean time of a collective."
    ),
    "program.step": Gauge(f"{_W}step", 1, "Newest step of the program."),
    "program.steps_per_s": Gauge(f"{_W}steps_per_second", 1, "How fast the steps come."),
    "program.step_age_s": Gauge(f"{_W}step_age_seconds", 1, "Since when the step is the newest."),
    "program.memory_bytes": Gauge(
        f"{_W}program_memory_bytes", 1, "Resident memory of the program."
    ),
}
"""Name of a sampled metric -> its gauge."""
PROGRAM_VALUE = Gauge(f"{_W}program_value", 1, "A number that the program prints, by its key.")
JOB_GAUGES = (
    Gauge("tpuctl_job_state", 1, "1 for the state that the job is in."),
    Gauge("tpuctl_job_step", 1, "Newest step of the job."),
    Gauge("tpuctl_job_usd_per_hour", 1, "List price of the slices that the job has now."),
    Gauge("tpuctl_job_usd_total", 1, "List price of all that the job has used."),
    Gauge("tpuctl_supervisor_up", 1, "1 while the supervisor runs."),
)
GAUGES = {gauge.name: gauge for gauge in (*SAMPLED.values(), PROGRAM_VALUE, *JOB_GAUGES)}
_P = "tpuctl_proxy_"
PROXY_METRICS = {
    each.name: each
    for each in (
        Gauge(f"{_P}up", 1, "1 while the proxy runs."),
        Gauge(f"{_P}queued", 1, "Requests that wait for a replica."),
        Gauge(f"{_P}in_flight", 1, "Requests that a replica has from this proxy."),
        Gauge(f"{_P}routed", 1, "1 while a replica gets new requests."),
        Gauge(
            f"{_P}requests_total", 1, "Requests by replica and status; 499: the client left; "
            "0: the replica broke off in the middle of its answer.", "counter",
        ),
        Gauge(
            f"{_P}retries_total", 1,
            "Requests that went to another replica after this one.", "counter",
        ),
        Gauge(f"{_P}removals_total", 1, "How often a replica failed too often.", "counter"),
        Gauge(f"{_P}first_byte_seconds", 1, "Time until an answer began.", "histogram"),
        Gauge(f"{_P}request_seconds", 1, "Time until an answer was complete.", "histogram"),
    )
}  # fmt: skip
"""What the proxy of a service counts."""


def sampled_values(labels: Mapping[str, str], values: Mapping[str, float]) -> Iterator[GaugeValue]:
    """The gauges of one sample of a worker; `labels` say which worker it is."""
    for name, value in values.items():
        whole, _, device = name.partition("/")
        if gauge := SAMPLED.get(whole):
            of_device = {**labels, "device": device} if device else labels
            yield GaugeValue(gauge.name, of_device, value * gauge.scale)
        elif name.startswith("program."):
            key = name.removeprefix("program.")
            yield GaugeValue(PROGRAM_VALUE.name, {**labels, "key": key}, value)


def exposition(
    values: Iterable[tuple[str, Mapping[str, str], float]], metrics: Mapping[str, Gauge] = GAUGES
) -> str:
    """The text of a page of metrics: the values of each one together, in the order of names.

    A value of a histogram has the name of its metric and `_bucket`, `_sum` or `_count`.
    """
    lines: dict[str, list[str]] = {}
    for name, labels, value in values:
        metric = name if name in metrics else name.rpartition("_")[0]
        lines.setdefault(metric, []).append(f"{name}{_labels(labels)} {_number(value)}\n")
    return "".join(
        f"# HELP {name} {metrics[name].text}\n"
        f"# TYPE {name} {metrics[name].kind}\n{''.join(lines[name])}"
        for name in sorted(lines)
    )


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.15g}"
