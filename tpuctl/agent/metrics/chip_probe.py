"""Measures the chips of this worker, as libtpu reports them. Python 3.8.

While no program holds the chips, libtpu reports nothing, and only their holder is known.
"""

from __future__ import annotations

from tpuctl.agent.metrics import runtime_service
from tpuctl.agent.tools import holders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tpuctl.agent.metrics.runtime_service import Reading

GAUGES = {
    "tpu.runtime.tensorcore.dutycycle.percent": "chip.duty_cycle_percent",
    "tpu.runtime.tensorcore.idle_duration.seconds": "chip.idle_s",
    "tpu.runtime.hbm.memory.usage.bytes": "chip.hbm_used_bytes",
    "tpu.runtime.hbm.memory.total.bytes": "chip.hbm_total_bytes",
    "tpu.runtime.hbm.utilization.percent": "chip.hbm_bandwidth_percent",
    "hlo.queue.size.gauge": "chip.queue_size",
}
MEANS = {
    "hlo.execution.timing.distribution.microseconds": "chip.execution_us",
    "megascale.dcn_transfer_latencies.microsecond.cumulative.distribution": "chip.dcn_transfer_us",
    "megascale.host_to_device_transfer_latencies.microsecond.cumulative.distribution": (
        "chip.host_to_device_us"
    ),
    "megascale.device_to_host_transfer_latencies.microsecond.cumulative.distribution": (
        "chip.device_to_host_us"
    ),
    "megascale.collective_end_to_end_latencies.microsecond.cumulative.distribution": (
        "chip.collective_us"
    ),
}
"""Cumulative distributions, of which a sample has the mean since the sample before it."""
METRICS = {**GAUGES, **MEANS}
HELD = "chip.held"


class ChipProbe:
    """Measures the chips again and again; remembers what distributions held before."""

    def __init__(self) -> None:
        self.before: dict[str, Reading] = {}

    def measure(self) -> dict[str, float]:
        """Return `chip.held`, 0 or 1, and where a program is loaded each METRIC/DEVICE."""
        found: dict[str, float] = {}
        base = 0
        for port in runtime_service.ports():
            told = runtime_service.read_metrics(port, list(METRICS))
            if told is not None:
                found.update(self.values(told, base))
                base = 1 + max(
                    (reading.device for each in told.values() for reading in each), default=-1
                )
        return {HELD: 1.0 if found or are_held() else 0.0, **found}

    def values(self, told: dict[str, list[Reading]], base: int) -> dict[str, float]:
        """Return the values of one program's chips, which are numbered from `base` on."""
        found = {}
        for name, readings in told.items():
            for reading in by_device(readings):
                key = f"{METRICS[name]}/{reading.device + base}"
                value = self.mean_since(key, reading) if name in MEANS else reading.value
                if value is not None:
                    found[key] = value
        return found

    def mean_since(self, key: str, reading: Reading) -> float | None:
        """Return the mean of what was observed since the last time; None when nothing was."""
        before, self.before[key] = self.before.get(key), reading
        count, total = reading.count or 0, reading.value * (reading.count or 0)
        if before is not None and before.count is not None and before.count <= count:
            count, total = count - before.count, total - before.value * before.count
        return total / count if count else None


def by_device(readings: Sequence[Reading]) -> Iterator[Reading]:
    """Yield one reading for each device, all its distributions together.

    Transfers are told by their size, and a device may have cores of several types: of gauges the
    largest counts.
    """
    devices: dict[int, list[Reading]] = {}
    for reading in readings:
        devices.setdefault(reading.device, []).append(reading)
    for device, mine in devices.items():
        counts = [reading.count for reading in mine if reading.count is not None]
        if not counts:
            yield runtime_service.Reading(device, max(reading.value for reading in mine))
            continue
        total, count = sum(reading.value * (reading.count or 0) for reading in mine), sum(counts)
        yield runtime_service.Reading(device, total / count if count else 0.0, count)


def are_held() -> bool:
    """Whether a process has the chips' device files open, or libtpu's lock."""
    found = holders.holder_report()
    return bool(found["holders"] or found["unseen"])
