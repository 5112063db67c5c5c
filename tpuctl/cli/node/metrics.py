"""`tpuctl node metrics`: what the workers of a node do now."""

from typing import Annotated

import typer

from tpuctl.cli.shell import metric_view
from tpuctl.cli.shell.metric_view import Metric, MetricSource, Plot, Since, Source
from tpuctl.cli.shell.options import NodeName, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import CHECK_WORKERS_HINT, reach_workers
from tpuctl.errors import PartialFailureError, TpuctlError, TransientError
from tpuctl.metrics.exporters import metric_plot
from tpuctl.metrics.samples import WorkerSamples
from tpuctl.operations.metrics.node_metrics import node_metrics
from tpuctl.operations.remote.fanout import select_workers
from tpuctl.operations.stage.plan.endpoints import ALL, WorkerEndpoint

MONITORING_HINT = "or run: tpuctl node metrics {} --source cloud-monitoring"


def metrics(
    runtime: Runtime,
    name: NodeName,
    since: Since = None,
    worker: Annotated[
        str,
        typer.Option(
            metavar="IDS",
            help="all, 0, 1,4,6 or 1-3; default: all.",
            autocompletion=completed_by("worker"),
        ),
    ] = ALL,
    metric: Metric = None,
    plot: Plot = None,
    source: Source = MetricSource.AGENT,
) -> None:
    """Measure the hosts and chips of a node now.

    It needs no job.

    What is measured is kept on this machine for a week; --since shows that too, and --plot draws
    it. --source cloud-monitoring asks no worker.
    """
    if plot is not None:
        metric_plot.check_format(plot)
    since_s = None if since is None else runtime.now() - since
    failure: TpuctlError | None = None
    if source is MetricSource.CLOUD_MONITORING:
        series = _monitored(runtime, name, worker, since_s)
    else:
        series, failure = _measured(runtime, name, worker, since_s)
    title = f"workers of {name}"
    if plot is not None:
        metric_view.show_plot(runtime.output, plot, series, metric, title=title, source=source)
    else:
        now_s = runtime.now()
        metric_view.show_samples(
            runtime.output, series, metric, now_s=now_s, title=title, source=source
        )
    metric_view.note_source(runtime.output, source)
    if failure is not None:
        raise failure


def _measured(
    runtime: Runtime, name: str, worker: str, since_s: float | None
) -> tuple[list[WorkerSamples], TpuctlError | None]:
    """Measure the workers, and say why that failed where it did."""
    reached = reach_workers(runtime, WorkerEndpoint(name, worker, ""))
    found = node_metrics(reached, runtime.home, since_s)
    for worker_id, why in sorted(found.missing.items()):
        runtime.output.warn(f"worker {worker_id}: {why}")
    if not found.missing:
        return found.series, None
    hint = f"{CHECK_WORKERS_HINT.format(name)}; {MONITORING_HINT.format(name)}"
    if len(reached.workers) == len(found.missing):
        error = f"no worker of node {name!r} could be measured"
        return found.series, TransientError(error, hint=hint)
    count = f"{len(found.missing)} of {len(reached.workers)}"
    return found.series, PartialFailureError(f"{count} workers could not be measured", hint=hint)


def _monitored(
    runtime: Runtime, name: str, worker: str, since_s: float | None
) -> list[WorkerSamples]:
    """What Cloud Monitoring has of the workers; the node may be in any state."""
    from tpuctl.operations.metrics.monitored import monitored_node
    from tpuctl.operations.slices import lifecycle

    find = lifecycle.find if runtime.shared.zone else lifecycle.find_anywhere
    node = find(runtime.tpu, runtime.context.zone, name)
    chosen = {each.worker_id for each in select_workers(node, worker)}
    found = monitored_node(runtime.monitoring, runtime.tpu, node, runtime.now(), since_s)
    return [each for each in found if each.worker_id in chosen]
