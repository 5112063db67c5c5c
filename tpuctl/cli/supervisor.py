"""`tpuctl supervisor ...`: who looks after the jobs of a context."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli.app import INTERRUPTED, TERMINATED, Terminated
from tpuctl.cli.service.service_proxy import ProxyFiles, find_service, open_proxy
from tpuctl.cli.shell.daemon_threads import use_daemon_threads
from tpuctl.cli.shell.options import Noun
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Usd, attributes, moments
from tpuctl.network_policy import PROXY_DRAIN_S

app = Noun("Look after the jobs of a context.")

COLUMNS = {
    **attributes("context", "pid"),
    **moments("since"),
    **attributes(jobs="job_ids"),
    **attributes("services"),
    "log": lambda found: str(found.log),
}
"""Keys and order are public."""
MetricsPort = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=0,
        max=65535,
        help="Serve /metrics to Prometheus at this port of 127.0.0.1; 0: a free one.",
    ),
]
EXIT_TIMEOUT_S = 3.0
END_SIGNALS: dict[signal.Signals, tuple[int, type[KeyboardInterrupt]]] = {
    signal.SIGTERM: (TERMINATED, Terminated),
    signal.SIGHUP: (TERMINATED, Terminated),
    signal.SIGINT: (INTERRUPTED, KeyboardInterrupt),
}
"""The signals that end a supervisor: the exit code, and what the command line knows it by."""


@app.verb("run")
def run(
    runtime: Runtime,
    accept: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER[,OWNER...]",
            help="Whose jobs, as `job describe` shows the owner; ada, or ada@*, stands for all "
            "of ada's machines. Without it: mine.",
        ),
    ] = None,
    stay: Annotated[
        bool, typer.Option("--stay", help="Go on when no job is left, for jobs to come.")
    ] = False,
    metrics: MetricsPort = None,
    serve: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run the proxy of this service too: tpuctl serve NAME."),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where that proxy listens, as tpuctl serve does.")
    ] = "127.0.0.1:8000",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The token that its requests need.")
    ] = None,
) -> None:
    """Look after the jobs of this context.

    It stops when no open job is left.
    """
    from tpuctl.operations.jobs import supervise

    runtime.supervisor_warned = True
    runtime.on_interrupt.append("jobs go on without it; take them over with: tpuctl supervisor run")
    owners = supervise.parse_owners(accept)
    proxy = None
    if serve:
        find = partial(find_service, runtime, serve)
        proxy = open_proxy(runtime, find, listen, ProxyFiles(token_file))
    supervising: Awaitable[None]
    if metrics is None:
        supervising = supervise.supervise_owners(runtime, owners, runtime.output.note, stay=stay)
    else:
        from tpuctl.operations.metrics import prometheus

        supervising = prometheus.supervise_with_metrics(
            runtime, owners, runtime.output.note, stay=stay, port=metrics,
            more=proxy.run.metrics_text if proxy else str,
        )  # fmt: skip
    if proxy is None:
        run_until_signal(runtime, supervising)
    else:
        from tpuctl.operations.services.proxying import run_beside

        both = run_beside(supervising, proxy.running)
        run_until_signal(runtime, both, stop_s=PROXY_DRAIN_S + EXIT_TIMEOUT_S)
    warn_of_skipped_owners(runtime, owners)


@app.verb("status")
def status(runtime: Runtime) -> None:
    """Show this machine's supervisor of the context.

    Its process, since when it runs, the jobs and services that it looks after, and its log.
    """
    from tpuctl.operations.jobs import local_supervisor

    found = local_supervisor.find_supervisor(runtime, runtime.known_context_name)
    runtime.output.item(found, COLUMNS)
    if found.pid is None:
        runtime.output.note(f"no supervisor of context {found.context!r} runs on this machine")


@app.verb("stop")
def stop(runtime: Runtime) -> None:
    """End this machine's supervisor of the context.

    Its jobs and services go on without it. The command lists them, with their cost.
    """
    from tpuctl.operations.jobs import local_supervisor, queries
    from tpuctl.operations.slices import spending

    found = local_supervisor.find_supervisor(runtime, runtime.known_context_name)
    if found.pid is None:
        runtime.output.note(f"no supervisor of context {found.context!r} runs on this machine")
        return
    runtime.supervisor_warned = True
    jobs = local_supervisor.stop_supervisor(runtime, found)
    runtime.output.note(f"the supervisor of context {found.context!r} ended (process {found.pid})")
    for job in jobs:
        usd = spending.usd_per_hour(job) if spending.has_slice(job) else None
        price = f" at {Usd(usd)} USD/h" if usd is not None else ""
        runtime.output.note(
            f"job {job.job_id} is {job.state} and goes on{price}; "
            f"end it with: {queries.end_command(job)}"
        )
    for name in found.services:
        runtime.output.note(
            f"service {name} goes on, and nobody replaces its replicas; "
            f"end it with: tpuctl service delete {name}"
        )
    if jobs or found.services:
        runtime.output.note("to look after them again: tpuctl supervisor run")


def warn_of_skipped_owners(runtime: Runtime, accepts: Sequence[str]) -> None:
    """Warn of owners whose jobs no supervisor looks after, this one included."""
    from tpuctl.operations.jobs import supervision

    if owners := supervision.skipped_owners(runtime, accepts):
        runtime.output.warn(
            f"jobs of {', '.join(owners)} have no supervisor, and this one left them alone; "
            f"run: {supervision.supervisor_command(owners)}"
        )


def run_until_signal(
    runtime: Runtime, supervising: Awaitable[None], *, stop_s: float = EXIT_TIMEOUT_S
) -> None:
    """Run a supervisor to its end; on a signal stop it in order, within `stop_s` seconds.

    A second signal ends the process at once, after the same words. Raises KeyboardInterrupt.
    """
    heard: list[signal.Signals] = []
    before = {number: signal.getsignal(number) for number in END_SIGNALS}
    try:
        asyncio.run(_supervise_until_signal(runtime, supervising, heard, stop_s))
    except asyncio.CancelledError:
        raise END_SIGNALS[heard[0]][1] from None
    finally:
        for number, handler in before.items():  # the loop leaves the system's own behind
            signal.signal(number, handler)


async def _supervise_until_signal(
    runtime: Runtime,
    supervising: Awaitable[None],
    heard: list[signal.Signals],
    stop_s: float,
) -> None:
    """Run the supervisor until a signal; exit by force when stopping takes too long."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None

    def end(number: signal.Signals) -> None:
        code = END_SIGNALS[number][0]
        if heard:
            _exit_now(runtime, code)
        heard.append(number)
        loop.call_later(stop_s, _exit_now, runtime, code)
        main.cancel()

    use_daemon_threads()
    for number in END_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
            loop.add_signal_handler(number, end, number)
    await supervising


def _exit_now(runtime: Runtime, code: int) -> None:
    """Print what goes on, then end the process at once, even if the terminal is gone."""
    try:
        runtime.output.interrupted(runtime.on_interrupt)
        runtime.out.flush()
        runtime.err.flush()
    finally:
        os._exit(code)
