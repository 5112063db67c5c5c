"""A port of this machine where Prometheus reads what a supervisor knows."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tpuctl.jobs.supervisor.controller import JobController
from tpuctl.jobs.supervisor.job_pool import JobPool
from tpuctl.metrics.exporters.prometheus_text import (
    CONTENT_TYPE,
    GaugeValue,
    exposition,
    sampled_values,
)
from tpuctl.models.job import Attempt, JobRecord
from tpuctl.operations.jobs import supervise
from tpuctl.operations.jobs.events import JobRuntime
from tpuctl.operations.metrics import local_page
from tpuctl.operations.metrics.watched_slice import WatchedSlice
from tpuctl.operations.slices import spending

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

SILENT_S = 25.0
"""A worker is measured every 10 s; one that told nothing for so long is left out."""


async def supervise_with_metrics(
    runtime: JobRuntime,
    accepts: Sequence[str],
    say: supervise.Say,
    *,
    stay: bool,
    port: int,
    more: Callable[[], str] = str,
) -> None:
    """Supervise as supervise_owners does, and serve /metrics at a port of 127.0.0.1 meanwhile.

    `more` returns what else the page has. Port 0 is one that the system chooses. Raises
    LockedError, LocalIOError.
    """
    pools: list[JobPool] = []
    async with serve_page(port, lambda: _page(pools, runtime.now) + more()) as given:
        say(f"metrics: http://{local_page.ADDRESS}:{given}/metrics")
        await supervise.supervise_owners(runtime, accepts, say, stay=stay, on_pool=pools.append)


@contextlib.asynccontextmanager
async def serve_page(
    port: int, text: Callable[[], str], free_port_command: str = "tpuctl supervisor run --metrics 0"
) -> AsyncIterator[int]:
    """Serve a text at /metrics of a port of 127.0.0.1, to programs of this machine alone.

    Yields the port. Raises LocalIOError when it cannot be had, with that command as the hint.
    """
    from aiohttp import web

    listening = local_page.listen(port, free_port_command)
    given = listening.getsockname()[1]

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=text().encode(), headers={"Content-Type": CONTENT_TYPE})

    application = web.Application(middlewares=[_guard(given)])
    application.router.add_get("/metrics", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield given
    finally:
        await runner.cleanup()
        listening.close()


def _guard(port: int) -> "Middleware":
    """What refuses requests for other hosts (DNS rebinding), and those of web pages."""
    from aiohttp import web

    @web.middleware
    async def check(request: web.Request, handler: "Handler") -> web.StreamResponse:
        headers = request.headers
        site = headers.get("Sec-Fetch-Site", "none")
        why = local_page.host_refusal(headers.getall("Host", []), port)
        why = why or local_page.metrics_refusal(headers.getall("Origin", []), site)
        if why:
            return web.Response(status=403, text=f"Refused: {why}.\n")
        return await handler(request)

    return check


def _page(pools: Sequence[JobPool], now: Callable[[], float]) -> str:
    """The page of metrics; of a supervisor that began again, the newest of its pools counts."""
    values = [GaugeValue("tpuctl_supervisor_up", {}, 1)]
    for controller in pools[-1].controllers.values() if pools else ():
        values += [*job_values(controller.record, now()), *_worker_values(controller)]
    return exposition(values)


def job_values(record: JobRecord, now_s: float) -> Iterator[GaugeValue]:
    """The gauges of a job; what is not known is missing."""
    labels = {"job": record.job_id}
    yield GaugeValue("tpuctl_job_state", {**labels, "state": record.state}, 1)
    per_hour = spending.usd_per_hour(record) if spending.has_slice(record) else 0.0
    known = {
        "tpuctl_job_step": record.attempt.last_step if record.attempt else None,
        "tpuctl_job_usd_per_hour": per_hour,
        "tpuctl_job_usd_total": spending.spending_of(record, now_s).usd,
    }
    for name, value in known.items():
        if value is not None:
            yield GaugeValue(name, labels, value)


def _worker_values(controller: JobController) -> Iterator[GaugeValue]:
    """The gauges of the workers that were measured lately."""
    record, gang = controller.record, controller.gang
    attempt = record.attempt
    if gang is None or attempt is None or gang.attempt != attempt.number:
        return
    for link in gang.links:
        if (sample := link.recent_sample(SILENT_S)) is not None:
            labels = _labels_of(record, attempt, link.report.worker_id, len(gang.links))
            yield from sampled_values(labels, sample.values)


def _labels_of(
    record: JobRecord, attempt: Attempt, worker_id: int, worker_count: int
) -> dict[str, str]:
    """Whose value it is; the workers of several slices are numbered through."""
    return {
        "job": record.job_id, "attempt": str(attempt.number), "worker": str(worker_id),
        "node": attempt.nodes[worker_id * len(attempt.nodes) // worker_count],
        "zone": attempt.zone,
    }  # fmt: skip


def watched_values(watched: WatchedSlice, now_s: float) -> Iterator[GaugeValue]:
    """The gauges of the workers of a job or node that were measured lately."""
    job, node = watched.job, watched.node
    for worker in watched.known_workers:
        sample = worker.sample
        if sample is None or now_s - sample.time_s > SILENT_S:
            continue
        if node is not None:
            labels = {"worker": str(worker.worker_id), "node": node.name, "zone": node.zone}
        elif job is not None and job.attempt is not None:
            count = max(job.attempt.worker_count, worker.worker_id + 1)
            labels = _labels_of(job, job.attempt, worker.worker_id, count)
        else:
            continue
        yield from sampled_values(labels, sample.values)
