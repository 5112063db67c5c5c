"""What is wrong with a job or a node: collects what is known of it, and asks the rules."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tpuctl.errors import DamagedStateError, NotFoundError, TpuctlError, UsageError
from tpuctl.jobs.leases import lease
from tpuctl.jobs.logs import segments
from tpuctl.jobs.record import record_store
from tpuctl.metrics.chip_state import ChipState
from tpuctl.metrics.findings import host_rules, state_rules, windows
from tpuctl.metrics.findings.known_errors import first_match
from tpuctl.metrics.findings.observation import ChipUser, Finding, Observation
from tpuctl.metrics.findings.rules import findings
from tpuctl.metrics.samples import Sample, WorkerSamples, choose, merge
from tpuctl.metrics.stored_samples import read_stored
from tpuctl.models.duration import age
from tpuctl.models.job import Attempt, AttemptState, JobRecord, JobState
from tpuctl.models.node import Node, NodeState
from tpuctl.operations.jobs import queries
from tpuctl.operations.metrics.job_metrics import JobMetrics, job_metrics
from tpuctl.operations.metrics.live_samples import watch_workers
from tpuctl.operations.metrics.node_metrics import node_metrics
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.slices import cost, lifecycle, spending
from tpuctl.operations.slices.flex_start import with_flex_start
from tpuctl.operations.workers import access as worker_access
from tpuctl.operations.workers import chip_holders, targets

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.operations.jobs.events import JobRuntime

WINDOW_S = 2000.0
"""As far back as the rules look: half an hour, and a little more."""
OLDEST_S = 1800.0
"""The bucket has the samples of a job that runs at most half an hour late."""
LOG_BYTES = 64 * 1024
"""Of the end of a worker's log: XLA's report of memory follows its error."""
MOST_LOGS = 16
"""Workers whose log is read from the bucket, those that failed first before the others."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is wrong, by what was looked at, and what could not be read."""

    findings: list[Finding]
    seen: Observation
    missing: Sequence[str] = ()

    @property
    def measured_s(self) -> float | None:
        """The time of the newest sample that was looked at."""
        newest = [each.samples[-1].time_s for each in self.seen.series if each.samples]
        return max(newest, default=None)


def explain(
    runtime: JobRuntime,
    access: Access,
    name: str,
    *,
    zone: str | None = None,
    is_job: bool = False,
    is_node: bool = False,
) -> Explanation:
    """What is wrong with the job or the node of that name; the workers are asked now.

    Raises NotFoundError, and UsageError where a job and a node have the name.
    """
    job, node = None, None
    if not is_node:
        with suppress(NotFoundError):
            job = queries.find_job(runtime, name)
    if not is_job:
        with suppress(NotFoundError):
            find = lifecycle.find if zone else lifecycle.find_anywhere
            node = find(runtime.tpu, runtime.context.zone, name)
    if job and node:
        raise UsageError(
            f"a job and a node have the name {name!r}",
            hint=f"run: tpuctl explain {name} --job, or: tpuctl explain {name} --node",
        )
    if job:
        return explain_job(runtime, access, job)
    if node:
        return explain_node(runtime, access, node)
    kind = "job" if is_job else "node" if is_node else "job and no node"
    hint = "run: tpuctl job list, or: tpuctl node list"
    raise NotFoundError(f"there is no {kind} {name!r}", hint=hint)


def explain_job(runtime: JobRuntime, access: Access, job: JobRecord) -> Explanation:
    """What is wrong with a job, by its record, its samples and its log."""
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
    return _explained(replace(seen, clock_off_s=ahead, kept_nodes=kept), found.missing)


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
        if each.attempt == attempt.number and each.samples[-1].time_s > now_s - host_rules.SILENT_S
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


def explain_stored(runtime: JobRuntime, job: JobRecord) -> Explanation:
    """What is wrong with a job by what its bucket has: no worker is asked.

    A job that has succeeded or was cancelled has no findings. The newest samples of one that runs
    are up to half an hour old: they are judged as of then.
    """
    if job.attempt is None or job.state in (JobState.SUCCEEDED, JobState.CANCELLED):
        return Explanation([], Observation(runtime.now(), job=job))
    prefix = f"{record_store.job_directory(job.job_id)}/metrics/"
    end_s = runtime.now() if job.ended_s is None else job.ended_s
    since_s = end_s - WINDOW_S - OLDEST_S
    stored = read_stored(runtime.store(), prefix, since_s, job.attempt.number)
    newest_s = max((each.samples[-1].time_s for each in stored.series), default=end_s)
    return _explained(_seen_of_job(runtime, job, stored.series, min(end_s, newest_s)))


def _seen_of_job(
    runtime: JobRuntime, job: JobRecord, series: Sequence[WorkerSamples], now_s: float
) -> Observation:
    store, attempt = runtime.store(), job.attempt
    seen = Observation(
        now_s,
        job=job,
        zone=runtime.context.zone,
        series=_newest(series, attempt),
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


def _newest(series: Sequence[WorkerSamples], attempt: Attempt | None) -> list[WorkerSamples]:
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


def explain_node(runtime: JobRuntime, access: Access, node: Node) -> Explanation:
    """What is wrong with a node, by the API, its workers now, and what was measured before."""
    (node,) = with_flex_start(runtime.tpu, [node])
    usd = cost.usd_per_hour(node.accelerator_type, node.zone, node.provisioning)
    seen = Observation(
        runtime.now(), node=node, zone=runtime.context.zone, usd_per_hour=usd, is_live=True
    )
    if node.state != NodeState.READY:
        return _explained(seen)
    _, ours = worker_access.accessible_node(
        runtime.tpu, access, node.zone, node.name, runtime.sleep
    )
    reach = WorkerReach(runtime.tpu, ours, node, node.workers)
    found = node_metrics(reach, runtime.home, runtime.now() - WINDOW_S, runtime.now)
    silent = {each.worker_id for each in node.workers} - found.measured
    series = [each for each in found.series if each.worker_id in found.measured]
    seen = replace(
        seen,
        now_s=runtime.now(),
        series=series,
        unreached={
            worker_id: found.missing.get(worker_id, "it did not answer")
            for worker_id in sorted(silent)
        },
        clock_off_s=found.clock_off_s,
    )
    return _explained(
        replace(seen, holders=_holders(reach, series), is_used=_is_used(runtime, seen))
    )


def _holders(reach: WorkerReach, series: Sequence[WorkerSamples]) -> dict[int, list[ChipUser]]:
    """Who holds the chips of the workers on which no program is loaded."""
    held = {
        each.worker_id
        for each in series
        if windows.state_since(each, ChipState.HELD) is not None
    }  # fmt: skip
    if not held:
        return {}
    workers = [each for each in reach.workers if each.worker_id in held]
    return {
        use.worker_id: [
            ChipUser(f"pid {each.pid} of {each.user}: {each.command}", each.since_s, each.job)
            for each in use.holders
        ]
        for use in chip_holders.find_holders(replace(reach, workers=workers))
    }


def _is_used(runtime: JobRuntime, seen: Observation) -> bool | None:
    """Whether an attempt of an open job has the node; None where the bucket does not tell."""
    node = seen.node
    if node is None or not any(
        windows.state_since(each, ChipState.FREE) is not None for each in seen.series
    ):
        return None
    try:
        return any(node.node_id in attempt.node_ids for attempt in _open_attempts(runtime))
    except TpuctlError:
        return None


def _open_attempts(runtime: JobRuntime) -> Iterator[Attempt]:
    store = runtime.store()
    for entry in list(store.list(lease.LEASES)):
        with suppress(NotFoundError, DamagedStateError):
            job = record_store.load(store, entry.key.removeprefix(lease.LEASES)).record
            if job.attempt and job.attempt.state != AttemptState.ENDED and not job.is_ended:
                yield job.attempt


def _explained(seen: Observation, missing: Sequence[str] = ()) -> Explanation:
    return Explanation(findings(seen), seen, missing)


def calm_sentence(found: Explanation, now_s: float) -> str:
    """The sentence for a job or a node of which nothing is known to be wrong, and why it is so."""
    seen = found.seen
    sources = ["its record"] if seen.job else ["the API"]
    if found.measured_s is not None:
        count = len(seen.series)
        newest = age(max(0.0, now_s - found.measured_s))
        sources.append(
            f"the samples of {count} worker{'s' * (count != 1)}, the newest {newest} old"
        )
    told = f" is {seen.job.state}" if seen.job else " is READY"
    by = " and ".join(sources)
    return f"{seen.noun} {seen.name}{told}: nothing is known to be wrong with it, by {by}"
