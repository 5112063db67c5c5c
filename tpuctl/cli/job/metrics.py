"""`tpuctl job metrics`: what the workers of a job measured, over all its attempts."""

from typing import Annotated

import typer

from tpuctl.cli.shell import metric_view
from tpuctl.cli.shell.metric_view import Metric, MetricSource, Plot, Since, Source
from tpuctl.cli.shell.options import JobName, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.metrics.exporters import metric_plot
from tpuctl.metrics.samples import choose
from tpuctl.operations.metrics.job_metrics import job_metrics, monitored_metrics
from tpuctl.operations.remote.fanout import worker_ids


def metrics(
    runtime: Runtime,
    name: JobName,
    since: Since = None,
    worker: Annotated[
        str | None,
        typer.Option(
            metavar="IDS",
            help="0, 1,4,6 or 1-3; default: all.",
            autocompletion=completed_by("worker"),
        ),
    ] = None,
    metric: Metric = None,
    plot: Plot = None,
    source: Source = MetricSource.AGENT,
) -> None:
    """Show what the workers of a job measured.

    Hosts, chips and program.

    A table has the newest sample of each worker, or with --metric the range of each; -o json and
    csv have all samples of all attempts, which outlive the slices. --plot draws them, with the
    attempts and their ends marked. --source cloud-monitoring asks neither bucket nor workers for
    them, and has nothing of the program.
    """
    if plot is not None:
        metric_plot.check_format(plot)
    wanted = None if worker is None or worker == "all" else set(worker_ids(worker))
    since_s = 0.0 if since is None else runtime.now() - since
    if source is MetricSource.CLOUD_MONITORING:
        found = monitored_metrics(runtime, runtime.monitoring, name, since_s)
    else:
        found = job_metrics(runtime, runtime.access, name, since_s)
    series = [
        each for each in choose(found.series, since_s) if wanted is None or each.worker_id in wanted
    ]
    job, title = found.job, f"workers of {found.job.job_id}"
    if plot is not None:
        metric_view.show_plot(
            runtime.output, plot, series, metric, title=title, job=job, source=source
        )
    else:
        metric_view.show_samples(
            runtime.output,
            series,
            metric,
            now_s=runtime.now() if job.ended_s is None else job.ended_s,
            title=title,
            source=source,
        )
    metric_view.note_source(runtime.output, source)
    for line in found.missing:
        runtime.output.warn(line)
    if not any(each.samples for each in series):
        runtime.output.note(f"job {job.job_id} has no such samples yet: tpuctl job describe {name}")
