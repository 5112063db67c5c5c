"""The picture of what a job or a node measured, with the attempts marked."""

from collections.abc import Sequence
from pathlib import Path

from tpuctl.metrics.chart_series import SILENT_S, charts, named_charts
from tpuctl.metrics.exporters.metric_plot import AttemptMark, write_plot
from tpuctl.metrics.samples import WorkerSamples, choose
from tpuctl.models.job import AttemptOutcome, JobRecord


def plot_samples(
    path: Path,
    title: str,
    series: Sequence[WorkerSamples],
    patterns: Sequence[str],
    job: JobRecord | None = None,
    silent_s: float = SILENT_S,
) -> int:
    """Draw the metrics that a pattern names, or what everybody looks at; return how many charts.

    Without any nothing is written. Lines are broken where nothing was reported for `silent_s`.
    """
    if patterns:
        drawn = named_charts(list(choose(series, patterns=patterns)), silent_s)
    else:
        drawn = charts(series, silent_s)
    if drawn.charts:
        write_plot(path, title, drawn, [] if job is None else _marks(job))
    return len(drawn.charts)


def _marks(job: JobRecord) -> list[AttemptMark]:
    """Every attempt whose program started."""
    return [
        AttemptMark(
            each.number,
            each.started_s,
            each.ended_s,
            str(each.outcome or ""),
            each.outcome not in (None, AttemptOutcome.SUCCEEDED, AttemptOutcome.CANCELLED),
        )
        for each in job.attempts
        if each.started_s is not None
    ]
