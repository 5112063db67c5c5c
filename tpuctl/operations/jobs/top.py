"""The workers of running jobs, as they report."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tpuctl.errors import TpuctlError
from tpuctl.jobs import client
from tpuctl.jobs.interfaces import SYSTEM_CLOCKS, Backends
from tpuctl.jobs.logs.log_stream import follow
from tpuctl.models.job import JobRecord, Phase, WorkerReport
from tpuctl.operations.jobs.events import JobRuntime

REPORT_TIMEOUT_S = 5.0
POLL_S = 0.1


class WorkerRow(NamedTuple):
    """The last report of one worker of one job."""

    job_id: str
    report: WorkerReport


@dataclass(slots=True)
class WorkerBoard:
    """The newest report of every worker of some running jobs."""

    backends: Backends
    jobs: list[JobRecord]
    _reports: dict[tuple[str, int], WorkerReport] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        """Begin to listen to the workers, in the running event loop."""
        self._tasks = [asyncio.create_task(self._collect(job)) for job in self.jobs]

    async def stop(self) -> list[TpuctlError]:
        """Stop listening; returns the errors of jobs that could not be followed."""
        for task in self._tasks:
            task.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        return [error for error in ends if isinstance(error, TpuctlError)]

    @property
    def is_running(self) -> bool:
        """One of the jobs at least has not ended."""
        return any(not task.done() for task in self._tasks)

    @property
    def rows(self) -> Iterator[WorkerRow]:
        """The newest reports, by job and worker."""
        return (WorkerRow(key[0], self._reports[key]) for key in sorted(self._reports))

    async def wait_for_reports(self) -> None:
        """Wait until every worker of every running attempt has reported, or for 5 s."""
        expected = sum(len(job.attempt.workers) for job in self.jobs if job.attempt)
        deadline_s = SYSTEM_CLOCKS.monotonic() + REPORT_TIMEOUT_S
        while SYSTEM_CLOCKS.monotonic() < deadline_s:
            phases = [report.phase for report in self._reports.values()]
            if sum(phase != Phase.CONNECTING for phase in phases) >= expected:
                return
            await asyncio.sleep(POLL_S)

    async def _collect(self, job: JobRecord) -> None:
        def keep(_attempt: int, report: WorkerReport) -> None:
            self._reports[job.job_id, report.worker_id] = report

        async for _ in follow(self.backends, job.job_id, clocks=SYSTEM_CLOCKS, on_report=keep):
            pass


def worker_board(runtime: JobRuntime, name: str | None) -> WorkerBoard:
    """The board of one job, or of every job that has not ended. Raises NotFoundError."""
    store = runtime.outside.store
    jobs = [client.describe(store, name)] if name else client.list_jobs(store)
    return WorkerBoard(runtime.outside, [job for job in jobs if not job.is_ended])
