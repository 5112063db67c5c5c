"""The samples of a job: those in its bucket, and the newest, which its workers still have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuctl.errors import NotFoundError, PreconditionError, PreemptedError, TpuctlError
from tpuctl.jobs.record import decoding, record_store
from tpuctl.jobs.workers import protocol
from tpuctl.metrics.samples import Sample, WorkerSamples, merge
from tpuctl.metrics.stored_samples import read_stored
from tpuctl.models.job import AttemptState, JobRecord
from tpuctl.models.operation import CommandResult
from tpuctl.operations.jobs import queries
from tpuctl.operations.metrics.monitored import monitored_job
from tpuctl.operations.remote.fanout import WorkerReach, run_on_reach
from tpuctl.operations.workers import targets

if TYPE_CHECKING:
    from tpuctl.api.monitoring import MonitoringApi
    from tpuctl.api.ssh.keys import Access
    from tpuctl.api.ssh.worker_shell import Shell
    from tpuctl.operations.jobs.events import JobRuntime

READ_S = 30.0
READ = 'cat -- "$1/samples.jsonl" 2>/dev/null; echo; cat -- "$1/status.json" 2>/dev/null; true'
"""The agent's samples that are not in the bucket, and its status, which has the newest one."""
RUNNING = (AttemptState.PREPARING, AttemptState.RUNNING, AttemptState.STOPPING)


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """The samples of a job, and a line for each part of them that could not be read."""

    job: JobRecord
    series: list[WorkerSamples]
    missing: list[str]


def job_metrics(runtime: JobRuntime, access: Access, name: str, since_s: float = 0.0) -> JobMetrics:
    """All samples of a job from a time on. Raises NotFoundError."""
    job = queries.find_job(runtime, name)
    stored = read_stored(
        runtime.store(), f"{record_store.job_directory(job.job_id)}/metrics/", since_s
    )
    missing = [f"{key} is damaged: its samples are not shown" for key in sorted(stored.damaged)]
    series = stored.series
    if job.attempt is not None and job.attempt.state in RUNNING:
        live, lost = _live_samples(runtime, access, job)
        series, missing = merge([*series, *live]), [*missing, *lost]
    return JobMetrics(job, series, missing)


def monitored_metrics(
    runtime: JobRuntime, monitoring: MonitoringApi, name: str, since_s: float = 0.0
) -> JobMetrics:
    """The samples of a job that Cloud Monitoring has. Raises NotFoundError and what it raises."""
    job = queries.find_job(runtime, name)
    series, missing = monitored_job(monitoring, runtime.tpu, job, runtime.now(), since_s)
    return JobMetrics(job, series, missing)


def _live_samples(
    runtime: JobRuntime, access: Access, job: JobRecord
) -> tuple[list[WorkerSamples], list[str]]:
    """What the workers of the newest attempt have not sent yet, and who did not answer."""
    try:
        target = targets.job_target(
            runtime.store(), runtime.tpu, access, job.job_id, runtime.now(), runtime.sleep
        )
    except (NotFoundError, PreconditionError, PreemptedError):
        return [], []  # its slice has gone: the bucket has what there is
    found: list[WorkerSamples] = []
    lost: list[str] = []
    number = job.attempts[-1].number
    for reach in target.reaches:
        try:
            found += _read_files(reach, job.job_id, number, lost)
        except TpuctlError as error:
            lost.append(f"node {reach.node.name}: {error}")
    return found, lost


def _read_files(
    reach: WorkerReach, job_id: str, attempt: int, lost: list[str]
) -> list[WorkerSamples]:
    argv = ["sh", "-c", READ, "sh", protocol.run_directory(job_id, attempt)]
    found: list[WorkerSamples] = []

    async def read(shell: Shell) -> CommandResult:
        done = await shell.run(argv, timeout_s=READ_S)
        lines = list(_documents(done.stdout))
        found.append(WorkerSamples(attempt, shell.worker_id, list(_samples_of(lines))))
        if dropped := _dropped(lines):
            told = "its disk or the bucket did not take them"
            lost.append(f"worker {shell.worker_id}: {dropped} samples are lost: {told}")
        return CommandResult(shell.worker_id, 0)

    for result in run_on_reach(reach, read):
        if result.lost:
            why = f"worker {result.worker_id}: {result.lost_because}"
            lost.append(f"{why}: its newest samples are not shown")
    return found


def _documents(text: bytes) -> Iterator[dict[str, Any]]:
    """The samples of an agent's files as JSON: those of its file, and the newest of its status.

    A line that is being written is left out, and so are the numbers of a program that diverges,
    which no record takes.
    """
    for line in text.splitlines():
        with suppress(decoding.MalformedError):
            found = decoding.parse_document(line)
            found = found["sample"] if isinstance(found.get("sample"), dict) else found
            if isinstance(found.get("values"), dict):
                values = found["values"].items()
                kept = {name: value for name, value in values if not _is_too_large(value)}
                yield {**found, "values": kept}


def _is_too_large(value: object) -> bool:
    return isinstance(value, (int, float)) and not abs(value) <= decoding.LARGEST


def _samples_of(documents: Iterable[dict[str, Any]]) -> Iterator[Sample]:
    for document in documents:
        with suppress(decoding.MalformedError):
            yield decoding.decode_dataclass(Sample, document)


def _dropped(documents: Iterable[dict[str, Any]]) -> int:
    """How many samples an agent says that it has lost."""
    told = (document.get("dropped") for document in documents)
    return max((count for count in told if isinstance(count, int)), default=0)
