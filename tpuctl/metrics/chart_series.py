"""Samples as the lines of charts: on one grid of times, so many points as a screen can show."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

from tpuctl.metrics.samples import Sample, WorkerSamples, device_values

SAMPLE_EVERY_S = 10.0
"""An agent measures its worker so often."""
SILENT_S = 25.0
"""A worker that told nothing for longer has a gap in its line."""
MOST_POINTS = 400
LEAST_POINTS = 60
MOST_VALUES = 16_000
"""The most values of all lines together: about 100 kB."""
MOST_LINES = 16
"""Workers of which each has a line; of more there are the lowest, the median and the highest."""
MOST_PROGRAM_METRICS = 4
MOST_NAMED = 24
"""So many charts are still one picture."""
OWN = frozenset(
    {"program.step", "program.steps_per_s", "program.step_age_s", "program.memory_bytes"}
)
"""What every program has; the others are what this one prints."""
Values = list[float | None]


class Line(NamedTuple):
    """One line of a chart: of a worker of an attempt, or of all its workers."""

    attempt: int
    label: str
    first: int
    """The index of the time of its first value."""
    values: Values
    """None where the grid has a time and the worker no sample: the line goes on."""
    gaps: Sequence[int] = ()
    """Indexes of times at which the worker was silent: the line is broken."""


class Chart(NamedTuple):
    """One metric over all attempts."""

    title: str
    unit: str
    lines: Sequence[Line]


class Charts(NamedTuple):
    """All charts, and the times in seconds of the epoch that their lines have values for."""

    times: Sequence[float]
    charts: Sequence[Chart]


class Metric(NamedTuple):
    """How the value of a chart is made of a sample, and of which of its names."""

    names: tuple[str, ...]
    """Without any of them in the samples there is no chart."""
    get: Callable[[Sample], float | None]


SUMMARY: Mapping[str, Callable[[list[float]], float]] = {
    "highest": max, "median": median, "lowest": min,
}  # fmt: skip


def _mean(name: str) -> Metric:
    """The mean of all devices."""

    def get(sample: Sample) -> float | None:
        if (value := sample.values.get(name)) is not None:
            return value  # it has no devices: most have none, and there are a million of them
        values = device_values(sample, name)
        return fmean(values) if values else None

    return Metric((name,), get)


def _share(used: str, total: str) -> Metric:
    """The used part in percent, over all devices."""

    def get(sample: Sample) -> float | None:
        parts, wholes = (
            device_values(sample, name) or [sample.values.get(name, 0.0)] for name in (used, total)
        )
        return 100 * sum(parts) / sum(wholes) if sum(wholes) else None

    return Metric((used, total), get)


def _mib(*names: str) -> Metric:
    """The sum in MiB of those that are known."""

    def get(sample: Sample) -> float | None:
        known = [value for name in names if (value := sample.values.get(name)) is not None]
        return sum(known) / 2**20 if known else None

    return Metric(names, get)


OF_CHIPS: Mapping[str, tuple[str, Metric]] = {
    "Chips busy": ("%", _mean("chip.duty_cycle_percent")),
    "HBM used": ("%", _share("chip.hbm_used_bytes", "chip.hbm_total_bytes")),
    "Steps": ("per s", _mean("program.steps_per_s")),
}
OF_HOST: Mapping[str, tuple[str, Metric]] = {
    "Processors of the host": ("%", _mean("host.cpu_percent")),
    "Memory of the host": ("%", _share("host.memory_used_bytes", "host.memory_total_bytes")),
    "Network of the host": (
        "MiB/s",
        _mib("host.network_received_bytes_per_s", "host.network_sent_bytes_per_s"),
    ),
}
"""Title -> unit and value; between the two comes what the program prints."""


def charts(series: Sequence[WorkerSamples], silent_s: float = SILENT_S) -> Charts:
    """A chart for each metric that some sample has; lines have gaps of more than `silent_s`."""
    told = [each for each in series if each.samples]
    if not told:
        return Charts((), ())
    return _drawn(told, {**OF_CHIPS, **_printed(told), **OF_HOST}, silent_s)


def named_charts(series: Sequence[WorkerSamples], silent_s: float = SILENT_S) -> Charts:
    """A chart for each metric of the samples by its own name; of a chip the mean of all devices."""
    told = [each for each in series if each.samples]
    metrics = {name: ("", _mean(name)) for name in sorted(_names(told))[:MOST_NAMED]}
    return _drawn(told, metrics, silent_s)


def _names(told: Sequence[WorkerSamples]) -> set[str]:
    """The name of every metric, without the device."""
    names: set[str] = set()
    for each in told:
        for sample in each.samples:
            names.update(sample.values)
    return {name.partition("/")[0] for name in names}


def _drawn(
    told: Sequence[WorkerSamples], metrics: Mapping[str, tuple[str, Metric]], silent_s: float
) -> Charts:
    if not metrics:
        return Charts((), ())
    count = min(MOST_LINES, max(map(len, _by_attempt(told).values())))
    points = max(LEAST_POINTS, min(MOST_POINTS, MOST_VALUES // (count * len(metrics))))
    begin_s = min(each.samples[0].time_s for each in told)
    end_s = max(each.samples[-1].time_s for each in told)
    step_s = max(SAMPLE_EVERY_S, (end_s - begin_s) / points)
    cells = int((end_s - begin_s) / step_s) + 1
    names = _names(told)
    found = [
        Chart(title, unit, lines)
        for title, (unit, metric) in metrics.items()
        if not names.isdisjoint(metric.names)
        and (lines := list(_lines(told, metric, begin_s, step_s, silent_s)))
    ]
    return Charts([round(begin_s + index * step_s, 1) for index in range(cells)], found)


def _printed(series: Sequence[WorkerSamples]) -> dict[str, tuple[str, Metric]]:
    """What the program prints itself, by its own names, losses first."""
    names = sorted({name for each in series for name in each.samples[-1].values})
    own = [name for name in names if name.startswith("program.") and name not in OWN]
    own.sort(key=lambda name: "loss" not in name)
    return {name.removeprefix("program."): ("", _mean(name)) for name in own[:MOST_PROGRAM_METRICS]}


def _by_attempt(series: Sequence[WorkerSamples]) -> dict[int, list[WorkerSamples]]:
    found: dict[int, list[WorkerSamples]] = {}
    for each in series:
        found.setdefault(each.attempt, []).append(each)
    return found


def _lines(
    series: Sequence[WorkerSamples], metric: Metric, begin_s: float, step_s: float, silent_s: float
) -> Iterator[Line]:
    """The lines of a metric, each attempt by itself."""
    for attempt, workers in _by_attempt(series).items():
        lines = [
            Line(attempt, f"worker {each.worker_id}", *_on_grid(values, begin_s, step_s, silent_s))
            for each in workers
            if (values := _values(each, metric))
        ]
        yield from lines if len(lines) <= MOST_LINES else _summary(attempt, lines)


def _values(source: WorkerSamples, metric: Metric) -> list[tuple[float, float]]:
    """The times and values of one worker; a number that is not finite is left out."""
    both = ((sample.time_s, metric.get(sample)) for sample in source.samples)
    return [
        (time_s, value) for time_s, value in both if value is not None and abs(value) < float("inf")
    ]


def _on_grid(
    values: Sequence[tuple[float, float]], begin_s: float, step_s: float, silent_s: float
) -> tuple[int, Values, list[int]]:
    """The first cell of the grid that has a value, the mean of each from there on, and the gaps."""
    cells: dict[int, list[float]] = {}
    gaps: set[int] = set()
    before_s = values[0][0]
    for time_s, value in values:
        index = int((time_s - begin_s) / step_s)
        if time_s - before_s > silent_s:
            gaps |= set(range(int((before_s - begin_s) / step_s) + 1, index))
        cells.setdefault(index, []).append(value)
        before_s = time_s
    first, last = min(cells), max(cells)
    means = [
        _rounded(_mean_of(cells[index])) if index in cells else None
        for index in range(first, last + 1)
    ]
    return first, means, sorted(gaps)


def _mean_of(values: Sequence[float]) -> float:
    """The mean; most cells of the grid have a single value."""
    return values[0] if len(values) == 1 else fmean(values)


def _rounded(value: float) -> float:
    """The value with four digits."""
    return float(f"{value:.4g}")


def _summary(attempt: int, lines: Sequence[Line]) -> Iterator[Line]:
    """The highest, the median and the lowest of many workers."""
    cells: dict[int, list[float]] = {}
    for line in lines:
        for index, value in enumerate(line.values, line.first):
            if value is not None:
                cells.setdefault(index, []).append(value)
    first, last = min(cells), max(cells)
    gaps = sorted({index for line in lines for index in line.gaps} - set(cells))
    for label, kind in SUMMARY.items():
        values = [
            _rounded(kind(cells[index])) if index in cells else None
            for index in range(first, last + 1)
        ]
        yield Line(attempt, f"{label} of {len(lines)} workers", first, values, gaps)
