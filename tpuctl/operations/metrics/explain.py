"""What is wrong with a job or a node: collects what is known of it, and asks the rules."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuctl.errors import NotFoundError, UsageError
from tpuctl.metrics.findings.observation import Finding, Observation
from tpuctl.metrics.findings.rules import findings
from tpuctl.models.duration import age
from tpuctl.models.job import JobRecord, JobState
from tpuctl.models.node import Node
from tpuctl.operations.jobs import queries
from tpuctl.operations.metrics.job_observation import observe_job, observe_stored
from tpuctl.operations.metrics.node_observation import observe_node
from tpuctl.operations.slices import lifecycle

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.operations.jobs.events import JobRuntime


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
    found = find_subject(runtime, name, zone=zone, is_job=is_job, is_node=is_node)
    if isinstance(found, JobRecord):
        return explain_job(runtime, access, found)
    return explain_node(runtime, access, found)


def find_subject(
    runtime: JobRuntime,
    name: str,
    *,
    command: str = "explain",
    zone: str | None = None,
    is_job: bool = False,
    is_node: bool = False,
) -> JobRecord | Node:
    """The job or the node of a name, for a command that takes either.

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
            hint=f"run: tpuctl {command} {name} --job, or: tpuctl {command} {name} --node",
        )
    if found := job or node:
        return found
    kind = "job" if is_job else "node" if is_node else "job and no node"
    hint = "run: tpuctl job list, or: tpuctl node list"
    raise NotFoundError(f"there is no {kind} {name!r}", hint=hint)


def explain_job(runtime: JobRuntime, access: Access, job: JobRecord) -> Explanation:
    """What is wrong with a job, by its record, its samples and its log."""
    seen, missing = observe_job(runtime, access, job)
    return Explanation(findings(seen), seen, missing)


def explain_stored(runtime: JobRuntime, job: JobRecord) -> Explanation:
    """What is wrong with a job by what its bucket has: no worker is asked.

    A job that has succeeded or was cancelled has no findings.
    """
    if job.attempt is None or job.state in (JobState.SUCCEEDED, JobState.CANCELLED):
        return Explanation([], Observation(runtime.now(), job=job))
    seen = observe_stored(runtime, job)
    return Explanation(findings(seen), seen)


def explain_node(runtime: JobRuntime, access: Access, node: Node) -> Explanation:
    """What is wrong with a node, by the API, its workers now, and what was measured before."""
    seen = observe_node(runtime, access, node)
    return Explanation(findings(seen), seen)


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
