"""What is known of a job: its record, the samples of its workers, and the end of its log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tpuctl.errors import NotFoundError, TpuctlError
from tpuctl.jobs.logs import segments
from tpuctl.jobs.record import record_store
from tpuctl.metrics.findings import host_rules, state_rules
from tpuctl.metrics.findings.known_errors import first_match
from tpuctl.metrics.findings.observation import Observation, Saving
from tpuctl.metrics.samples import Sample, WorkerSamples, choose, merge
from tpuctl.metrics.stored_samples import read_stored
from tpuctl.models.job import Attempt, AttemptState, JobRecord
from tpuctl.models.job_log import LogLine
from tpuctl.models.node import NodeState
from tpuctl.operations.metrics.job_metrics import JobMetrics, job_metrics
from tpuctl.operations.metrics.live_samples import watch_workers
from tpuctl.operations.slices import spending
from tpuctl.operations.workers import targets

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.operations.jobs.events import JobRuntime

WINDOW_S = 2000.0
"""How far back the rules look, half an hour and a little more."""
OLDEST_S = 1800.0
"""The bucket has the samples of a job that runs at most half an hour late."""
LOG_BYTES = 64 * 1024
"""How much of the end of a worker's log is read: XLA's memory report follows its error."""
MOST_LOGS = 16
"""Workers whose log is read from the bucket, those that failed first before the others."""


def observe_job(
    runtime: JobRuntime, access: Access, job: JobRecord
) -> tuple[Observation, list[str]]:
    """Return what its workers and its bucket report now, and a line for each missing part."""
    now_s = runtime.now()
    end_s = now_s if job.ended_s is None else job.ended_s
    found = job_metrics(runtime, access, job.job_id, end_s - WINDOW_S)
    series = merge([*found.series, *_silent_measured(runtime, access, found, now_s)])
    seen = replace(_seen_of_job(runtime, found.job, series, now_s), is_live=True)
    ahead = {
        each.worker_id: max(0.0, each.samples[-1].time_s - runtime.now())
        for each in seen.series
        if each.samples
    }
    kept = list(_kept_nodes(runtime, found.job))
    seen = replace(seen, clock_off_s=ahead, kept_nodes=kept)
    if seen.is_working:
        lines, saving = _recent_lines(runtime, found.job), _saving(runtime, found.job)
        seen = replace(seen, recent_lines=lines, saving=saving)
    return seen, found.missing


def _recent_lines(runtime: JobRuntime, job: JobRecord) -> list[LogLine]:
    """The end of the first worker's log of the newest attempt."""
    sources = segments.sources(runtime.store(), job.job_id, job.attempts[-1].number)
    if not sources:
        return []
    return list(segments.tail_lines(runtime.store(), sources[min(sources)], LOG_BYTES))


def _saving(runtime: JobRuntime, job: JobRecord) -> Saving | None:
    """What the job's checkpoints tell of how long the program waits for them."""
    if job.spec.checkpoints is None:
        return None
    # They load numpy, which whoever only watches workers does without: 20 MiB and 0.1 s.
    from tpuctl.operations.checkpoints.advise import measure_saves
    from tpuctl.operations.checkpoints.step_view import RESTORABLE_STATES
    from tpuctl.operations.checkpoints.survey import job_directory, survey_directory

    with suppress(TpuctlError):  # nothing saved yet, or where nobody looks from here
        survey = survey_directory(job_directory(job, runtime.store))
        own = [each for each in survey.views if each.job == job.job_id]
        found = measure_saves([each for each in own if each.state in RESTORABLE_STATES])
        if found is not None and found.blocked_s is not None and found.interval_s:
            return Saving(found.saves, found.blocked_s, found.interval_s)
    return None


def observe_stored(runtime: JobRuntime, job: JobRecord) -> Observation:
    """Return what its bucket knows about a job: no worker is asked.

    The newest samples of a job that runs are up to half an hour old: they are judged as of then.
    """
    attempt = job.attempt
    prefix = f"{record_store.job_directory(job.job_id)}/metrics/"
    end_s = runtime.now() if job.ended_s is None else job.ended_s
    since_s = end_s - WINDOW_S - OLDEST_S
    stored = read_stored(runtime.store(), prefix, since_s, attempt.number if attempt else None)
    newest_s = max((each.samples[-1].time_s for each in stored.series), default=end_s)
    return _seen_of_job(runtime, job, stored.series, min(end_s, newest_s))


def _silent_measured(
    runtime: JobRuntime, access: Access, found: JobMetrics, now_s: float
) -> list[WorkerSamples]:
    """A sample, taken now, of each worker whose agent keeps none, as on a full disk."""
    attempt = found.job.attempt
    if attempt is None or attempt.state != AttemptState.RUNNING:
        return []
    telling = {
        each.worker_id
        for each in found.series
        if each.attempt == attempt.number
        and any(sample.time_s > now_s - host_rules.SILENT_S for sample in each.samples)
    }
    taken: list[WorkerSamples] = []

    def keep(worker_id: int, sample: Sample) -> None:
        taken.append(WorkerSamples(attempt.number, worker_id, [sample]))

    with suppress(TpuctlError):  # who cannot be measured stays silent
        target = targets.job_target(
            runtime.store(), runtime.tpu, access, found.job.job_id, runtime.now(), runtime.sleep
        )
        for reach in target.reaches:
            silent = [each for each in reach.workers if reach.first + each.worker_id not in telling]
            if silent:
                asyncio.run(watch_workers(replace(reach, workers=silent), keep, every_s=1, count=1))
    return taken


def _kept_nodes(runtime: JobRuntime, job: JobRecord) -> Iterator[str]:
    """The nodes that an ended job has requested for itself and that are READY still."""
    attempt = job.attempt
    if attempt is None or not job.is_ended or not attempt.owned or attempt.deleted_s is not None:
        return
    for name in attempt.nodes:
        with suppress(NotFoundError):
            node = runtime.tpu.get_node(attempt.zone, name)
            if node.node_id in attempt.node_ids and node.state == NodeState.READY:
                yield name


def _seen_of_job(
    runtime: JobRuntime, job: JobRecord, series: Sequence[WorkerSamples], now_s: float
) -> Observation:
    store, attempt = runtime.store(), job.attempt
    seen = Observation(
        now_s,
        job=job,
        zone=runtime.context.zone,
        series=newest_samples(series, attempt),
        usd_per_hour=spending.usd_per_hour(job),
    )
    failed = seen.failed_attempt
    if failed is not None:
        folder = f"{record_store.job_directory(job.job_id)}/stacks/"
        seen = replace(seen, has_stacks=any(True for _ in store.list(folder)))
        return replace(seen, log_ends=_log_ends(runtime, job, failed))
    if attempt is not None and _may_hang(seen):
        written_s = _log_written_s(runtime, job, attempt)
        return replace(seen, log_written_s=written_s)
    return seen


def newest_samples(series: Sequence[WorkerSamples], attempt: Attempt | None) -> list[WorkerSamples]:
    """The samples of the newest attempt from the start of its program on."""
    if attempt is None:
        return []
    mine = [each for each in series if each.attempt == attempt.number]
    return [each for each in choose(mine, attempt.started_s or 0.0) if each.samples]


def _may_hang(seen: Observation) -> bool:
    ages = state_rules.step_ages_s(seen)
    return bool(ages) and min(ages.values()) >= state_rules.HUNG_S


def _log_written_s(runtime: JobRuntime, job: JobRecord, attempt: Attempt) -> float | None:
    """When a worker's log of an attempt last grew in the bucket, which takes it every 15 s."""
    sources = segments.sources(runtime.store(), job.job_id, attempt.number)
    times = [entry.updated_s for entries in sources.values() for entry in entries]
    return max(times, default=attempt.started_s)


def _log_ends(runtime: JobRuntime, job: JobRecord, attempt: Attempt) -> dict[int, list[str]]:
    """The last lines of every worker: those of the record, or more of them from the bucket.

    The bucket is asked where no known error is in the record.
    """
    ends = {
        each.worker_id: [*each.last_lines, *each.traceback.splitlines()]
        for each in attempt.workers
        if not each.stopped
    }
    if any(first_match(lines) for lines in ends.values()):
        return ends
    sources = segments.sources(runtime.store(), job.job_id, attempt.number)
    first = attempt.first_worker
    order = sorted(worker_id for _, worker_id in sources if not ends or worker_id in ends)
    order.sort(key=lambda worker_id: worker_id != first)
    for worker_id in order[:MOST_LOGS]:
        entries = sources[attempt.number, worker_id]
        read = segments.tail_lines(runtime.store(), entries, LOG_BYTES)
        ends[worker_id] = [line.text for line in read] or ends.get(worker_id, [])
    return ends
