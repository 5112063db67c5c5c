"""What `tpuctl top` says of one worker: for programs, and as a row on the screen."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tpuctl import catalog
from tpuctl.cli.shell.metric_view import chips_text, used_share, used_text
from tpuctl.cli.shell.tables.values import Columns, attributes
from tpuctl.metrics.chip_state import ChipUse, chip_use
from tpuctl.metrics.findings.observation import Finding
from tpuctl.metrics.samples import device_values
from tpuctl.operations.metrics.watched_slice import WatchedSlice, WatchedWorker

SILENT_S = 6.0
"""Workers are measured every second, or every two."""
MIB = 1024 * 1024
USUAL_LAG = 1
"""Steps by which workers are apart because they report one after another."""


MESH_METRICS = {
    "duty cycle": ("chip.duty_cycle_percent", None),
    "HBM": ("chip.hbm_used_bytes", "chip.hbm_total_bytes"),
}
"""What a cell of the mesh shows: a percentage, or a part of a whole."""


class WorkerRow(NamedTuple):
    """One worker of a job or node at a moment."""

    watched: WatchedSlice
    worker: WatchedWorker
    use: ChipUse | None
    steps_per_s: float | None
    behind: int
    """How many steps it is behind the first worker of its job."""
    findings: tuple[Finding, ...] = ()
    """What is wrong with it."""


def worker_rows(
    watched: WatchedSlice, now_s: float, monotonic_s: float, found: Sequence[Finding] = ()
) -> list[WorkerRow]:
    """A row for each worker; `now_s` is in seconds of the epoch, as the workers' own clocks."""
    first = max((each.step for each in watched.known_workers if each.step is not None), default=0)
    return [
        WorkerRow(
            watched,
            each,
            chip_use(each.sample, now_s, SILENT_S) if each.sample else None,
            each.steps_per_s(monotonic_s),
            first - each.step if each.step is not None else 0,
            tuple(one for one in found if not one.workers or each.worker_id in one.workers),
        )
        for each in watched.known_workers
    ]


def chip_shares(row: WorkerRow, metric: tuple[str, str | None]) -> list[float | None]:
    """The value of each chip of a worker from 0 to 1; None where it is not known."""
    chips = catalog.accelerator_type(row.watched.accelerator_type).chips_per_worker
    name, whole = metric
    sample = row.worker.sample
    if sample is None or row.use is None or row.use.silent_s:
        return [None] * chips
    values = device_values(sample, name)
    most = device_values(sample, whole) if whole else [100.0] * len(values)
    shares = [value / limit if limit else None for value, limit in zip(values, most, strict=False)]
    per_chip = max(1, len(shares) // chips)
    return (shares[::per_chip] + [None] * chips)[:chips]


def state_of(row: WorkerRow) -> str | None:
    """The phase of the worker's run; None for a node without a job."""
    return row.worker.report.phase.upper() if row.worker.report else None


def _printed(name: str) -> Callable[[WorkerRow], float | str | None]:
    def get(row: WorkerRow) -> float | str | None:
        return row.worker.report.metrics.get(name) if row.worker.report else None

    return get


def _sampled(name: str) -> Callable[[WorkerRow], float | None]:
    def get(row: WorkerRow) -> float | None:
        return row.worker.sample.values.get(name) if row.worker.sample else None

    return get


def _memory_mib(row: WorkerRow) -> float | None:
    held = row.worker.report.rss_bytes if row.worker.report else None
    return held and round(held / MIB, 1)


DOCUMENT: Columns[WorkerRow] = {
    "job": lambda row: row.watched.job.job_id if row.watched.job else None,
    **attributes(worker="worker.worker_id"),
    "state": state_of,
    **attributes(step="worker.step"),
    "examples_per_s": _printed("examples_per_s"),
    "mxu_busy": _printed("mxu_busy"),
    "memory_mib": _memory_mib,
    "node": lambda row: row.watched.node.name if row.watched.node else None,
    "chips": lambda row: row.use.state if row.use else None,
    "duty_cycle_percent": lambda row: row.use.duty_cycle_percent if row.use else None,
    "cpu_percent": _sampled("host.cpu_percent"),
    "host_memory_used_bytes": _sampled("host.memory_used_bytes"),
    "steps_per_s": lambda row: row.steps_per_s,
    "findings": lambda row: [found.name for found in row.findings],
}
"""For -o json and yaml. The keys are public."""


def _cpu_text(row: WorkerRow) -> str | None:
    value = _sampled("host.cpu_percent")(row)
    return None if value is None else f"{value:.0f} %"


def _step_text(row: WorkerRow) -> str | None:
    if row.worker.step is None:
        return None
    late = f" (-{row.behind})" if row.behind > USUAL_LAG else ""
    return f"{row.worker.step}{late}"


def _used_text(column: str) -> Callable[[WorkerRow], str | None]:
    def get(row: WorkerRow) -> str | None:
        return used_text(row.worker.sample, column) if row.worker.sample else None

    return get


def _share_text(column: str) -> Callable[[WorkerRow], str | None]:
    def get(row: WorkerRow) -> str | None:
        share = used_share(row.worker.sample, column) if row.worker.sample else None
        return None if share is None else f"{100 * share:.0f} %"

    return get


def _rate_text(row: WorkerRow) -> str | None:
    return None if row.steps_per_s is None else f"{row.steps_per_s:.3g}"


TABLE: Columns[WorkerRow] = {
    "name": lambda row: row.watched.name,
    **attributes(worker="worker.worker_id"),
    "state": state_of,
    "chips": lambda row: chips_text(row.use) if row.use else "not measured yet",
    "hbm": _used_text("hbm"),
    "cpu": _cpu_text,
    "memory": _used_text("memory"),
    "step": _step_text,
    "steps_per_s": _rate_text,
}
"""For people, once."""
SCREEN: Columns[WorkerRow] = {
    "worker": TABLE["worker"],
    "state": state_of,
    "step": _step_text,
    "steps/s": _rate_text,
    "cpu": _cpu_text,
    "memory": _share_text("memory"),
    "hbm": _share_text("hbm"),
    "chips": TABLE["chips"],
}
"""For the screen of 80 columns."""
