"""`job submit --dry-run`: what a submission would do and what it may cost; nothing is written."""

from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path

from tpuctl.errors import NotFoundError, PermissionDeniedError, TransientError
from tpuctl.jobs.backends import build_backends
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.policy import zones
from tpuctl.jobs.policy.observation import ZoneHealth
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.slices import zone_health
from tpuctl.jobs.submit import job_submission, shared_checkpoints, workdir_archive
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs.events import JobNotice, JobRuntime, Noted
from tpuctl.operations.jobs.submit import (
    JobRequest,
    check_request,
    require_within_limit,
    submission_warnings,
)
from tpuctl.operations.slices import spending_check


@dataclass(frozen=True, slots=True)
class PlannedPlace:
    """Where the job's slices may be requested; the price is that of all of them."""

    zone: str
    accelerator_type: str
    usd_per_hour: float | None
    quota: str = ""
    """What is left of it; Empty where it is not known."""
    stockout_s: float | None = None
    """When a job was last told there that there is no capacity; None: not that anybody knows."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What a submission would do."""

    job: JobRecord
    """As it would be written."""
    places: tuple[PlannedPlace, ...]
    """In the order in which they are tried."""
    most_usd: float | None
    """What the slices cost at most; None without a limit, or where no price is known."""
    bucket: str
    bucket_location: str
    """Empty where it is not known."""
    files: int
    size_bytes: int
    defaults: frozenset[str]
    """The options of the slices that the context decided."""


def plan_job(runtime: JobRuntime, request: JobRequest) -> Generator[JobNotice, None, JobPlan]:
    """Check a job file as `submit_job` does, and say what would become of it.

    Raises what the submission would raise before it writes.
    """
    found = yield from check_request(runtime, request)
    yield from require_within_limit(runtime, found)
    context = runtime.context
    backends = build_backends(
        context,
        store=runtime.store(),
        tpu=runtime.tpu,
        access=None,
        open_store=runtime.store,
    )
    lines: list[str] = []
    submitter = replace(found.submitter, say=lines.append)
    job = job_submission.draft_record(
        found.spec, backends, submitter, now_s=runtime.now(), node=found.node
    )
    shared_checkpoints.refuse_shared_checkpoints(backends.store, found.spec)
    files, size_bytes = _survey(job, submitter)
    yield from map(Noted, lines)
    yield from submission_warnings(runtime, job)
    return JobPlan(
        job=job,
        places=_places(backends, job, runtime.now()),
        most_usd=most_usd(job),
        bucket=context.bucket,
        bucket_location=_location(runtime),
        files=files,
        size_bytes=size_bytes,
        defaults=frozenset(found.defaults),
    )


def most_usd(job: JobRecord) -> float | None:
    """What the job's slices cost at most by its timeouts, budget and TTL, where these say it."""
    return spending_check.most_usd(job.spec, job.usd_per_hour)


def _survey(job: JobRecord, submitter: job_submission.Submitter) -> tuple[int, int]:
    """How many files of the workdir would be sent, and their bytes."""
    if job.spec.workdir is None:
        return 0, 0
    return workdir_archive.survey(
        Path(job.spec.workdir),
        submitter.include,
        secret_files=job_secrets.secret_files(job.spec.secrets),
        say=submitter.say,
    )


def _places(backends: Backends, job: JobRecord, now_s: float) -> tuple[PlannedPlace, ...]:
    """What may be asked for, in the order that a supervisor would take now."""
    if job.node:
        return (PlannedPlace(job.zone, job.accelerator_type, job.usd_per_hour),)
    health = zone_health.read(backends, job, now_s)
    return tuple(
        PlannedPlace(
            place.zone,
            place.accelerator_type,
            place.usd_per_hour,
            _quota_text(health[place.key]),
            health[place.key].out_s,
        )
        for place in zones.ranked_places(job, health)
    )


def _quota_text(known: ZoneHealth) -> str:
    """What is left of the quota, and of the external addresses where these do not suffice."""
    addresses = known.addresses if known.has_addresses is False else ""
    return "; ".join(filter(None, (known.quota, addresses)))


def _location(runtime: JobRuntime) -> str:
    try:
        return str(runtime.bulk(runtime.context.bucket).facts().location.lower())
    except (PermissionDeniedError, NotFoundError, TransientError):
        return ""
