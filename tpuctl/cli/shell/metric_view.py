"""How samples of workers are shown: a table of the newest, or all of them for programs."""

import csv
import io
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from tpuctl.byte_size import size_text
from tpuctl.cli.shell.output import Output
from tpuctl.cli.shell.parsing import items, seconds
from tpuctl.cli.shell.tables.values import Columns, attributes
from tpuctl.metrics import monitored_samples
from tpuctl.metrics.chip_state import ChipState, ChipUse, chip_use
from tpuctl.metrics.samples import Sample, WorkerSamples, choose, device_values
from tpuctl.models.duration import age
from tpuctl.models.job import JobRecord

Since = Annotated[
    float | None,
    typer.Option(
        metavar="DURATION",
        parser=seconds,
        help="Only samples of the last 90s, 20m, 24h or 7d.",
    ),
]
"""In seconds, once it is parsed."""
Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Only these, such as loss,hbm_* or chip.duty_cycle_percent."
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Draw one picture instead, a .png or a .svg; it needs matplotlib."
    ),
]


class MetricSource(StrEnum):
    """Where measurements of workers come from on workers."""

    AGENT = "agent"
    CLOUD_MONITORING = "cloud-monitoring"


Source = Annotated[
    MetricSource,
    typer.Option(
        metavar="SOURCE",
        help="agent: what tpuctl measures on the workers; cloud-monitoring: what Google does, "
        "every minute, for workers that cannot be reached as well.",
    ),
]
SILENT_S = 25.0
"""A worker that is measured every 10 s does not report when it is silent for longer."""
CSV_COLUMNS = ("attempt", "worker", "time_s", "metric", "value")
USED_OF = {
    "hbm": ("chip.hbm_used_bytes", "chip.hbm_total_bytes"),
    "memory": ("host.memory_used_bytes", "host.memory_total_bytes"),
    "disk": ("host.disk_used_bytes", "host.disk_total_bytes"),
}
"""Column -> what is used, and of how much."""
STATES = {
    ChipState.LOADED: "busy {use.duty_cycle_percent:.0f} %",
    ChipState.HELD: "held, no program loaded",
    ChipState.FREE: "free",
    ChipState.SILENT: "no answer since {silent}",
    ChipState.UNKNOWN: "not told",
}


class NewestSample(NamedTuple):
    """The newest sample of a worker, and what it says of the chips now."""

    worker_id: int
    sample: Sample
    use: ChipUse
    age_s: float


class MetricRange(NamedTuple):
    """The values of one metric of one worker, over the time that was asked for."""

    attempt: int
    worker_id: int
    name: str
    last: float
    least: float
    mean: float
    most: float
    samples: int


def chips_text(use: ChipUse) -> str:
    """The state of a worker's chips, as `busy 83 %`."""
    return STATES[use.state].format(use=use, silent=age(use.silent_s))


def used_text(sample: Sample, column: str) -> str | None:
    """`1.2 GiB of 15.8 GiB`, over all devices; the second is left out where it is not known.

    None where the first is not.
    """
    used, total = (_sum(sample, name) for name in USED_OF[column])
    if used is None:
        return None
    return size_text(used) if total is None else f"{size_text(used)} of {size_text(total)}"


def used_share(sample: Sample, column: str) -> float | None:
    """The used part of all devices, from 0 to 1; None where it is not known."""
    used, total = (_sum(sample, name) for name in USED_OF[column])
    return used / total if used is not None and total else None


NEWEST: Columns[NewestSample] = {
    **attributes(worker="worker_id"),
    "chips": lambda row: chips_text(row.use),
    "hbm": lambda row: used_text(row.sample, "hbm"),
    "cpu": lambda row: _number(row.sample, "host.cpu_percent", "{:.0f} %"),
    "memory": lambda row: used_text(row.sample, "memory"),
    "step": lambda row: _number(row.sample, "program.step", "{:.0f}"),
    "steps_per_s": lambda row: _number(row.sample, "program.steps_per_s", "{:.3g}"),
    "age": lambda row: age(row.age_s),
}
RANGES: Columns[MetricRange] = {
    **attributes("attempt", worker="worker_id", metric="name"),
    **attributes("last", min="least", mean="mean", max="most", samples="samples"),
}


def silent_after_s(source: MetricSource) -> float:
    """After how many seconds without a sample a worker is silent, by who measures it."""
    is_monitored = source is MetricSource.CLOUD_MONITORING
    return monitored_samples.SILENT_S if is_monitored else SILENT_S


def note_source(output: Output, source: MetricSource) -> None:
    """Say how old the figures may be, where they are not the newest."""
    if source is MetricSource.CLOUD_MONITORING:
        minutes = monitored_samples.LATEST_S / 60
        output.note(f"Cloud Monitoring: one figure a minute, up to {minutes:.0f} minutes old")


def show_samples(
    output: Output,
    series: Sequence[WorkerSamples],
    names: str | None,
    *,
    now_s: float,
    title: str,
    source: MetricSource = MetricSource.AGENT,
) -> None:
    """Print samples as the format wants them; `names` are the metrics of `--metric`."""
    chosen = list(choose(series, patterns=items(names)))
    if _has_samples(series) and not _has_samples(chosen):
        output.note(f"nothing that was measured has a name like {names}")
    if output.is_document:
        output.document([document_of(each, sample) for each in chosen for sample in each.samples])
    elif output.is_csv:
        _print_csv(output, chosen)
    elif names:
        output.items([_range(*each) for each in _values(chosen)], RANGES, title=title)
    else:
        output.items(newest_samples(chosen, now_s, silent_after_s(source)), NEWEST, title=title)


def show_plot(
    output: Output,
    path: Path,
    series: Sequence[WorkerSamples],
    names: str | None,
    *,
    title: str,
    job: JobRecord | None = None,
    source: MetricSource = MetricSource.AGENT,
) -> None:
    """Draw samples into a file and print its name; a file is not written without any of them."""
    from tpuctl.operations.metrics.plot import plot_samples

    patterns = items(names)
    is_monitored = source is MetricSource.CLOUD_MONITORING
    gap_s = monitored_samples.GAP_S if is_monitored else SILENT_S
    if plot_samples(path, title, series, patterns, job, gap_s):
        output.item(path, {"file": str})
    elif _has_samples(series):
        output.note(f"nothing that was measured has a name like {names}")


def _has_samples(series: Iterable[WorkerSamples]) -> bool:
    return any(each.samples for each in series)


def newest_samples(
    series: Sequence[WorkerSamples], now_s: float, silent_after_s: float
) -> list[NewestSample]:
    """The newest sample of every worker of the newest attempt."""
    newest = max((each.attempt for each in series), default=0)
    return [
        NewestSample(
            each.worker_id,
            each.samples[-1],
            chip_use(each.samples[-1], now_s, silent_after_s),
            now_s - each.samples[-1].time_s,
        )
        for each in series
        if each.attempt == newest and each.samples
    ]


def document_of(source: WorkerSamples, sample: Sample) -> dict[str, object]:
    """A sample as JSON has it. The keys are public."""
    return {
        "attempt": source.attempt,
        "worker": source.worker_id,
        "time_s": sample.time_s,
        "values": dict(sample.values),
    }


def _print_csv(output: Output, series: Sequence[WorkerSamples]) -> None:
    """Print a line for each value, a million of them in a second or two."""
    output.line(",".join(CSV_COLUMNS))
    for source in series:
        for sample in source.samples:
            start = f"{source.attempt},{source.worker_id},{sample.time_s:.3f},"
            output.out.writelines(
                f"{start}{_csv_cell(name)},{value:.12g}\n" for name, value in sample.values.items()
            )


@lru_cache(maxsize=4096)
def _csv_cell(text: str) -> str:
    """A text as a cell; a program may print any name."""
    cell = io.StringIO()
    csv.writer(cell, lineterminator="").writerow([text])
    return cell.getvalue()


def _values(series: Sequence[WorkerSamples]) -> list[tuple[WorkerSamples, str, list[float]]]:
    """The values of every metric of every worker."""
    found = []
    for source in series:
        names = sorted({name for sample in source.samples for name in sample.values})
        for name in names:
            values = [each.values[name] for each in source.samples if name in each.values]
            found.append((source, name, values))
    return found


def _range(source: WorkerSamples, name: str, values: list[float]) -> MetricRange:
    mean = sum(values) / len(values)
    extremes = min(values), mean, max(values)
    return MetricRange(source.attempt, source.worker_id, name, values[-1], *extremes, len(values))


def _sum(sample: Sample, name: str) -> float | None:
    values = device_values(sample, name)
    return sum(values) if values else sample.values.get(name)


def _number(sample: Sample, name: str, form: str) -> str | None:
    value = sample.values.get(name)
    return None if value is None else form.format(value)
