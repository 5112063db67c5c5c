"""`tpuctl node metrics`: what the workers of a node do now."""

from typing import Annotated

import typer

from tpuctl.cli.shell import metric_view
from tpuctl.cli.shell.metric_view import Metric, Plot, Since
from tpuctl.cli.shell.options import NodeName
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import CHECK_WORKERS_HINT, reach_workers
from tpuctl.errors import PartialFailureError, TransientError
from tpuctl.metrics.exporters import metric_plot
from tpuctl.operations.metrics.node_metrics import node_metrics
from tpuctl.operations.stage.plan.endpoints import ALL, WorkerEndpoint

SILENT_S = 25.0


def metrics(
    runtime: Runtime,
    name: NodeName,
    since: Since = None,
    worker: Annotated[
        str, typer.Option(metavar="IDS", help="all, 0, 1,4,6 or 1-3; default: all.")
    ] = ALL,
    metric: Metric = None,
    plot: Plot = None,
) -> None:
    """Measure the workers of a node now: hosts and chips, with or without a job.

    What is measured is kept on this machine for a week; --since shows that too, and --plot draws
    it.
    """
    if plot is not None:
        metric_plot.check_format(plot)
    reached = reach_workers(runtime, WorkerEndpoint(name, worker, ""))
    since_s = None if since is None else runtime.now() - since
    found = node_metrics(reached, runtime.home, since_s)
    title = f"workers of {name}"
    if plot is not None:
        metric_view.show_plot(runtime.output, plot, found.series, metric, title=title)
    else:
        metric_view.show_samples(
            runtime.output,
            found.series,
            metric,
            now_s=runtime.now(),
            silent_after_s=SILENT_S,
            title=title,
        )
    for worker_id, why in sorted(found.missing.items()):
        runtime.output.warn(f"worker {worker_id}: {why}")
    if not found.missing:
        return
    hint = CHECK_WORKERS_HINT.format(name)
    if len(reached.workers) == len(found.missing):
        raise TransientError(f"no worker of node {name!r} could be measured", hint=hint)
    count = f"{len(found.missing)} of {len(reached.workers)}"
    raise PartialFailureError(f"{count} workers could not be measured", hint=hint)
