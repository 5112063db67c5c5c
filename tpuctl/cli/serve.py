"""`tpuctl serve NAME|FILE`: one address in front of the replicas of a service."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.service.service_proxy import OpenedProxy, ProxyFiles, find_service, open_proxy
from tpuctl.cli.shell.options import OverBudget, completed_by
from tpuctl.cli.shell.parsing import seconds
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.supervisor import EXIT_TIMEOUT_S, MetricsPort, run_until_signal
from tpuctl.network_policy import PROXY_DRAIN_S, PROXY_QUEUE_S, PROXY_SILENCE_S

if TYPE_CHECKING:
    from tpuctl.models.inference.service_record import ServiceRecord

METRICS_PORT = "tpuctl serve NAME --metrics 0"


def serve(
    runtime: Runtime,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE",
            help="A service; or a job file with `serve`, whose service is created first.",
            autocompletion=completed_by("service"),
        ),
    ],
    listen: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="HOST:PORT, or a PORT of 127.0.0.1; 0: a free one. Beyond this machine a token "
            "is needed.",
        ),
    ] = "127.0.0.1:8000",
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The token that requests need (Authorization: Bearer); TPUCTL_SERVE_TOKEN "
            "without it.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Encrypt with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The key of the certificate (PEM).")
    ] = None,
    metrics: MetricsPort = None,
    silence: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=seconds,
            help="How long a replica may send nothing, before and in its answer [10m].",
        ),
    ] = None,
    queue: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=seconds,
            help="How long a request waits for a replica; longer for a service without one [30s].",
        ),
    ] = None,
    max_in_flight: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Requests that a replica has at a time; more wait in a queue."
        ),
    ] = None,
    repeat_posts: Annotated[
        bool,
        typer.Option(
            "--repeat-posts",
            help="The engine may do a request twice: a POST whose replica breaks off before its "
            "answer goes to another one.",
        ),
    ] = False,
    over_budget: OverBudget = False,
) -> None:
    """Send requests that come to one address to the replicas of a service, until Ctrl-C.

    Each goes to the replica with the fewest in flight among those that are ready. Answers stream
    as they come; WebSockets too. It may run several times for one service.
    """
    from tpuctl.operations.services import proxying

    limits = proxying.make_limits(
        silence_s=silence or PROXY_SILENCE_S,
        queue_s=PROXY_QUEUE_S if queue is None else queue,
        in_flight=max_in_flight,
        repeats_posts=repeat_posts,
    )
    files = ProxyFiles(token_file, tls_cert, tls_key)
    find = partial(_find_or_create, runtime, name, over_budget=over_budget)
    proxy = open_proxy(runtime, find, listen, files, limits)
    runtime.on_interrupt.append(f"service {proxy.name!r} goes on; only this proxy of it has ended")
    running = proxy.running if metrics is None else _with_metrics(runtime, proxy, metrics)
    run_until_signal(runtime, running, stop_s=PROXY_DRAIN_S + EXIT_TIMEOUT_S)


def _find_or_create(runtime: Runtime, name: str, *, over_budget: bool) -> ServiceRecord:
    """The service of that name, or the new one of a job file: a name has no dot and no slash.

    Raises NotFoundError, ConflictError for a job file whose service exists already.
    """
    from tpuctl.cli.shell import job_notices
    from tpuctl.operations.jobs.submit import JobRequest
    from tpuctl.operations.services import submit

    if "/" not in name and not name.endswith((".yaml", ".yml")):
        return find_service(runtime, name)
    runtime.refuse_other_project()
    request = JobRequest(Path(name), None, runtime.shared.zone, over_budget=over_budget)
    return job_notices.result_of(runtime, submit.submit_file(runtime, request))


async def _with_metrics(runtime: Runtime, proxy: OpenedProxy, metrics: int) -> None:
    from tpuctl.operations.metrics import local_page, prometheus

    async with prometheus.serve_page(metrics, proxy.run.metrics_text, METRICS_PORT) as port:
        runtime.output.note(f"metrics: http://{local_page.ADDRESS}:{port}/metrics")
        await proxy.running
