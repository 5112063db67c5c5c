"""Jobs and nodes as they work: what their workers report, measure and print, kept up to date."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpuctl.errors import NotFoundError, TpuctlError
from tpuctl.jobs import client
from tpuctl.jobs.interfaces import SYSTEM_CLOCKS
from tpuctl.jobs.logs.log_stream import follow
from tpuctl.metrics.sample_history import SampleHistory
from tpuctl.metrics.samples import Sample, WorkerSamples
from tpuctl.models.job import JobRecord, WorkerReport
from tpuctl.models.job_log import LogFilter, LogLine
from tpuctl.models.node import NodeState
from tpuctl.operations.metrics.job_metrics import job_metrics
from tpuctl.operations.metrics.job_observation import WINDOW_S, newest_samples
from tpuctl.operations.metrics.live_samples import watch_workers
from tpuctl.operations.metrics.watched_slice import WatchedSlice
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.slices import lifecycle
from tpuctl.operations.workers import access as worker_access
from tpuctl.operations.workers import targets

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.operations.jobs.events import JobRuntime

EVERY_S = 1.0
EVERY_OF_MANY_S = 2.0
MANY_WORKERS = 64
FOR_EVER = 1_000_000_000
"""Samples of a probe, which ends when nobody reads any more."""
AGAIN_S = 2.0
KEPT_LINES = 500
RECENT_S = 60.0
"""How much of the log is shown from before the watching began."""
REPORT_TIMEOUT_S = 10.0
POLL_S = 0.1
NODE_EVERY_S = 5.0
KEEP_EVERY_S = 10.0
"""The pause between kept samples of a node without a job: that of an agent."""


@dataclass(slots=True)
class SliceWatch:
    """Watches jobs and nodes until it is stopped."""

    runtime: JobRuntime
    access: Access
    slices: list[WatchedSlice]
    lines: deque[tuple[str, LogLine]] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    """The newest lines of all jobs, each with the job's id."""
    line_count: int = 0
    """The number of all lines that came."""
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        """Begin to watch, in the running event loop."""
        for each in self.slices:
            each.began_s = self.runtime.now()
            if each.job is not None:
                self._tasks.append(asyncio.create_task(self._follow(each)))
            else:
                self._tasks.append(asyncio.create_task(self._observe_node(each)))
                self._tasks.append(asyncio.create_task(self._keep_samples(each)))
            self._tasks.append(asyncio.create_task(self._measure(each)))

    async def stop(self) -> list[TpuctlError]:
        """Stop watching; returns the errors of jobs that could not be followed."""
        for task in self._tasks:
            task.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        return [error for error in ends if isinstance(error, TpuctlError)]

    @property
    def is_running(self) -> bool:
        """Whether one of them at least has not ended."""
        return any(not each.is_over for each in self.slices)

    @property
    def usd_per_hour(self) -> float | None:
        """What all of them cost now; None where a price is not known."""
        prices = [each.usd_per_hour for each in self.slices]
        known = [price for price in prices if price is not None]
        return sum(known) if len(known) == len(prices) else None

    async def wait_for_all(self) -> None:
        """Wait until every worker has reported and was measured, or for 10 s."""
        deadline_s = SYSTEM_CLOCKS.monotonic() + REPORT_TIMEOUT_S
        while SYSTEM_CLOCKS.monotonic() < deadline_s:
            if all(each.is_over or each.is_known for each in self.slices):
                return
            await asyncio.sleep(POLL_S)

    async def _follow(self, watched: WatchedSlice) -> None:
        """Take reports, lines and the record of a job until it has ended."""

        def keep(_attempt: int, report: WorkerReport) -> None:
            watched.worker(report.worker_id).take_report(report, SYSTEM_CLOCKS.monotonic())

        wanted = LogFilter(since_s=self.runtime.now() - RECENT_S)
        clocks, backends = SYSTEM_CLOCKS, self.runtime.outside
        try:
            async for item in follow(
                backends, watched.name, clocks=clocks, wanted=wanted, on_report=keep
            ):
                if isinstance(item, JobRecord):
                    self._take_record(watched, item)
                else:
                    self.lines.append((watched.name, item))
                    self.line_count += 1
            watched.is_over = True
        except TpuctlError as error:
            watched.trouble = f"its log cannot be followed: {error}"
            raise

    def _take_record(self, watched: WatchedSlice, record: JobRecord) -> None:
        before = watched.attempt_number
        watched.job = record
        if watched.attempt_number != before:
            watched.workers.clear()  # of a slice that is gone
            watched.has_past = False

    async def _measure(self, watched: WatchedSlice) -> None:
        """Measure the workers of the slices that it has, for as long as it has some."""

        def keep(worker_id: int, sample: Sample) -> None:
            watched.worker(worker_id).take_sample(sample, SYSTEM_CLOCKS.monotonic())

        remembered: int | None = None
        while not watched.is_over:
            if remembered != watched.attempt_number:
                remembered = watched.attempt_number
                self._tasks.append(asyncio.create_task(self._remember(watched)))
            try:
                reaches = await asyncio.to_thread(self._reaches, watched)
                numbers = [r.first + each.worker_id for r in reaches for each in r.workers]
                known = [watched.worker(number) for number in numbers]
                every_s = EVERY_S if len(known) <= MANY_WORKERS else EVERY_OF_MANY_S
                watched.trouble = ""
                watching = (
                    watch_workers(reach, keep, every_s=every_s, count=FOR_EVER, again_s=AGAIN_S)
                    for reach in reaches
                )
                await self._until_another_attempt(watched, asyncio.gather(*watching))
            except TpuctlError as error:
                watched.trouble = str(error)
            await asyncio.sleep(AGAIN_S)

    async def _remember(self, watched: WatchedSlice) -> None:
        """Take the samples from before the watching: without them no rate is known for a minute."""
        number = watched.attempt_number
        try:
            series = await asyncio.to_thread(self._past, watched)
        except TpuctlError:
            series = []  # the watching itself tells what is wrong
        if watched.attempt_number != number:
            return
        now_s = SYSTEM_CLOCKS.monotonic()
        for each in series:
            old_s = max(0.0, self.runtime.now() - each.samples[-1].time_s)
            watched.worker(each.worker_id).take_past(each.samples, old_s, now_s)
        watched.has_past = True

    def _past(self, watched: WatchedSlice) -> list[WorkerSamples]:
        """The samples of the newest attempt, or those kept of a node. Raises TpuctlError."""
        since_s = self.runtime.now() - WINDOW_S
        if watched.job is None:
            kept = SampleHistory(self.runtime.home)
            return kept.read(str(watched.node.node_id), since_s) if watched.node else []
        found = job_metrics(self.runtime, self.access, watched.name, since_s)
        return newest_samples(found.series, found.job.attempt)

    async def _observe_node(self, watched: WatchedSlice) -> None:
        """Keep the state of a node up to date until it is gone."""
        tpu, node = self.runtime.tpu, watched.node
        while node is not None:
            await asyncio.sleep(NODE_EVERY_S)
            try:
                node = await asyncio.to_thread(tpu.get_node, node.zone, node.name)
                watched.node = node
            except NotFoundError:
                watched.trouble, watched.is_over = "it was deleted", True
                return
            except TpuctlError as error:
                watched.trouble = str(error)

    async def _keep_samples(self, watched: WatchedSlice) -> None:
        """Keep a sample of every worker of a node now and then: no job does it."""
        history = SampleHistory(self.runtime.home)
        while watched.node is not None and not watched.is_over:
            await asyncio.sleep(KEEP_EVERY_S)
            newest = [
                WorkerSamples(0, worker.worker_id, [worker.sample])
                for worker in watched.known_workers
                if worker.sample is not None
            ]
            await asyncio.to_thread(history.add, str(watched.node.node_id), newest)

    async def _until_another_attempt(
        self, watched: WatchedSlice, watching: asyncio.Future[list[dict[int, str]]]
    ) -> None:
        """Wait for the watching to end, and end it when the job has other slices or none."""
        attempt = watched.attempt_number
        try:
            while not watching.done() and not watched.is_over:
                await asyncio.wait([watching], timeout=AGAIN_S)
                is_ready = watched.node is None or watched.node.state == NodeState.READY
                if watched.attempt_number != attempt or not is_ready:
                    return
            if watching.done():
                lost = [each for found in watching.result() for each in found.items()]
                watched.trouble = "; ".join(f"worker {number}: {why}" for number, why in lost)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def _reaches(self, watched: WatchedSlice) -> Sequence[WorkerReach]:
        """The way to the workers of a job's slices, or of a node. Raises TpuctlError."""
        runtime = self.runtime
        if watched.job is not None:
            store = runtime.store()
            found = targets.job_target(
                store, runtime.tpu, self.access, watched.name, runtime.now(), runtime.sleep
            )
            return found.reaches
        assert watched.node is not None  # noqa: S101 -- a slice without a job is a node
        node, access = worker_access.accessible_node(
            runtime.tpu, self.access, watched.node.zone, watched.node.name, runtime.sleep
        )
        watched.node = node
        return (WorkerReach(runtime.tpu, access, node, node.workers),)


def watch(runtime: JobRuntime, access: Access, name: str | None) -> SliceWatch:
    """What watches one job or node, or all: every job that runs, and without one every READY node.

    Raises NotFoundError, UsageError when several open jobs have the name.
    """
    return SliceWatch(runtime, access, list(_named(runtime, name) if name else _all(runtime)))


def _named(runtime: JobRuntime, name: str) -> list[WatchedSlice]:
    try:
        job = client.describe(runtime.store(), name)
    except NotFoundError as error:
        try:
            node = lifecycle.find_anywhere(runtime.tpu, runtime.context.zone, name)
        except NotFoundError:
            text = f"there is no job and no node {name!r}"
            raise NotFoundError(text, hint="run: tpuctl job list, or: tpuctl node list") from error
        return [WatchedSlice(node.name, node=node)]
    return [WatchedSlice(job.job_id, job, is_over=job.is_ended)]


def _all(runtime: JobRuntime) -> list[WatchedSlice]:
    jobs = [job for job in client.list_jobs(runtime.store()) if not job.is_ended]
    if jobs:
        return [WatchedSlice(job.job_id, job) for job in jobs]
    listed, _unreachable = runtime.tpu.list_nodes("-")
    ready = [each for each in listed if each.state == NodeState.READY]
    return [
        WatchedSlice(each.name, node=runtime.tpu.get_node(each.zone, each.name)) for each in ready
    ]
