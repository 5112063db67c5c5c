"""Checks of one job: what explains its state, its supervisor, its buckets, and its quota."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tpuctl.errors import CapacityError, NotFoundError, PreconditionError
from tpuctl.jobs import client
from tpuctl.jobs.policy.observation import ZoneHealth
from tpuctl.jobs.slices import zone_health
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.models.job import JobRecord, JobState
from tpuctl.operations.health.checks.target.node_checks import lines_of
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope
from tpuctl.operations.jobs import supervision
from tpuctl.operations.metrics import explain

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.operations.jobs.events import JobRuntime

JOB, SUPERVISOR, BUCKETS, QUOTA = "job", "supervisor", "buckets of the job", "quota of the job"
WANTING = frozenset({JobState.QUEUED, JobState.WAITING, JobState.RECOVERING})
"""States in which a job may wait for a slice."""


@dataclass(frozen=True, slots=True)
class JobTarget:
    """The job that is asked about, and the command's clients."""

    runtime: JobRuntime
    access: Access
    job: JobRecord


def checks_of_job(target: JobTarget) -> Sequence[DoctorCheck]:
    """The checks of a job, in the order of their lines."""
    rows = [(JOB, ask_job), (SUPERVISOR, ask_supervisor), (BUCKETS, ask_buckets)]
    if target.job.state in WANTING and target.job.node is None:
        rows.append((QUOTA, ask_quota))
    return [DoctorCheck(name, partial(ask, target)) for name, ask in rows]


def ask_job(target: JobTarget, _scope: DoctorScope) -> Iterator[HealthCheck]:
    """The findings about a job; a job that has failed is a failure by its own exit code."""
    job, runtime = target.job, target.runtime
    found = explain.explain_job(runtime, target.access, job)
    lines = list(lines_of(found.findings))
    failure = client.error_of(job) if job.state == JobState.FAILED else None
    if failure is not None:
        fix = next((line.fix for line in lines), f"tpuctl job logs {job.job_id}")
        yield HealthCheck(JOB, HealthState.FAIL, str(failure), fix, error=failure)
    elif not lines:
        sentence = explain.calm_sentence(found, runtime.now())
        yield HealthCheck(JOB, HealthState.PASS, sentence)
    yield from lines
    for text in found.missing:
        yield HealthCheck(JOB, HealthState.UNKNOWN, text)


def ask_supervisor(target: JobTarget, _scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether a live supervisor looks after a job that needs one."""
    job, runtime = target.job, target.runtime
    if job.is_settled:
        yield HealthCheck(SUPERVISOR, HealthState.PASS, "none is needed: all is over")
        return
    store, home, context = runtime.store(), runtime.home, runtime.context.name
    found = client.supervisor_of(store, home, context, job.job_id)
    if found is None:
        evidence = f"no supervisor looks after {job.job_id}"
        fix = supervision.supervisor_command({job.owner})
        error = PreconditionError(evidence)
        yield HealthCheck(SUPERVISOR, HealthState.FAIL, evidence, fix, error=error)
        return
    place = f" on {found.host} (pid {found.pid})" if found.host else ""
    yield HealthCheck(SUPERVISOR, HealthState.PASS, f"one looks after it{place}")


def ask_buckets(target: JobTarget, _scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the buckets that the job file names can be read."""
    spec = target.job.spec
    urls = [*([spec.checkpoints.dir] if spec.checkpoints else []), *spec.file_mounts.values()]
    names = sorted({urlsplit(url).netloc for url in urls if url.startswith("gs://")})
    for name in names:
        try:
            next(iter(target.runtime.store(f"gs://{name}").list("tpuctl/")), None)
        except NotFoundError as error:
            project = target.runtime.context.project
            fix = f"gcloud storage buckets create gs://{name} --project={project}"
            yield HealthCheck(BUCKETS, HealthState.FAIL, str(error), fix, error=error)
            return
    listed = ", ".join(f"gs://{name}" for name in names) or "the context's alone"
    yield HealthCheck(BUCKETS, HealthState.PASS, listed)


def ask_quota(target: JobTarget, _scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether there is quota, and external addresses, in any place that the job may ask in."""
    job, runtime = target.job, target.runtime
    health = zone_health.read(runtime.outside, job, runtime.now())
    texts = [
        f"{zone}: {text}"
        for (zone, _), known in health.items()
        for text in (known.quota, known.addresses if known.has_addresses is False else "")
        if text
    ]
    evidence = "; ".join(dict.fromkeys(texts)) or "no limit is known"
    if all(_is_short(known) for known in health.values()):
        error = CapacityError(evidence)
        yield HealthCheck(QUOTA, HealthState.FAIL, evidence, "tpuctl sweep", error=error)
    else:
        yield HealthCheck(QUOTA, HealthState.PASS, evidence)


def _is_short(known: ZoneHealth) -> bool:
    return known.has_quota is False or known.has_addresses is False
