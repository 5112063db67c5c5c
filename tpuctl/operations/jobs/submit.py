"""Submit a job: check its file and everything it names, then put it into the bucket."""

from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tpuctl.errors import NotFoundError, PermissionDeniedError, TransientError, UsageError
from tpuctl.jobs.local import open_jobs, supervisor_lock
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.slices import switch_setup
from tpuctl.jobs.spec import job_file
from tpuctl.jobs.submit import job_submission, placement
from tpuctl.jobs.submit.submit_warnings import warnings_for
from tpuctl.models import slice_options
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.operations.jobs.events import (
    JobNotice,
    JobRuntime,
    Noted,
    Submitted,
    Submitting,
    Warned,
)
from tpuctl.operations.local import local_cloud
from tpuctl.operations.slices import lifecycle


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job file, and what the command line adds to it."""

    file: Path
    node: str | None = None
    """The slice to run on, which is never torn down."""
    zone: str | None = None
    """The only zone for new slices, instead of those of the file."""
    include: tuple[str, ...] = ()
    """Patterns of files of the workdir that are sent although they are ignored or hold a key."""


def submit_job(runtime: JobRuntime, request: JobRequest) -> Generator[JobNotice, None, JobRecord]:
    """Check a job file and put the job into the bucket; nobody looks after it yet.

    Raises UsageError, NotFoundError (node, bucket), PreconditionError, ConflictError (another job
    has its checkpoints), RefusedError (a key in the workdir), LocalIOError.
    """
    context = runtime.context
    spec, defaults = _load_spec(runtime, request)
    job_secrets.resolve_values(spec.secrets, runtime.environ)  # what is not there is told now
    yield from _check_buckets(runtime, spec)
    node = lifecycle.find(runtime.tpu, context.zone, request.node) if request.node else None
    is_configured = context.name in runtime.config.contexts
    left_behind: list[str] = []
    submitter = job_submission.Submitter(
        owner=job_submission.default_owner(),
        host_id=supervisor_lock.ensure_host_id(runtime.home, context.name),
        provides=frozenset() if is_configured else local_cloud.PROVIDES,
        regions=_bucket_regions(runtime) if node is None and _asks_regions(spec) else frozenset(),
        include=request.include,
        say=left_behind.append,
    )
    if node is None and (text := worst_case_text(spec, context.zone, submitter.regions)):
        yield Noted(text)
    yield Submitting()
    try:
        job = job_submission.submit(
            spec, runtime.outside, submitter, now_s=runtime.now(), node=node
        )
    finally:
        yield from map(Noted, left_behind)
    open_jobs.add_jobs(runtime.home, context.name, job.job_id)
    yield Submitted(job)
    yield from map(Noted, filter(None, (defaults,)))
    yield from map(Warned, warnings_for(job))
    if job.node is None and (text := switch_setup.warning(runtime.store(), job.usd_per_hour)):
        yield Warned(text)
    return job


def _load_spec(runtime: JobRuntime, request: JobRequest) -> tuple[JobSpec, str]:
    """The job of a file with what the context decides of its slices, and a line about that."""
    context = runtime.context
    spec = job_file.load(request.file, bucket=context.bucket, environ=runtime.environ)
    if request.include and spec.workdir is None:
        raise UsageError("--include is for files of the workdir, and the job file has none")
    if request.node:
        return spec, ""
    wanted = spec.resources
    if request.zone:
        slice_options.check_disks(
            wanted.options.data_disks, request.zone, "resources.data_disks and --zone"
        )
        wanted = replace(wanted, zones=(request.zone,))
    applied = slice_options.applied_defaults(context.slice_defaults, wanted.options.given)
    options = replace(wanted.options, **applied)
    found = replace(spec, resources=replace(wanted, options=options))
    return found, slice_options.defaults_text(applied)


def worst_case_text(spec: JobSpec, zone: str, regions: Collection[str]) -> str | None:
    """What requests side by side may cost at worst; None where the job makes one at a time."""
    places = placement.place_job(spec, None, zone, regions).places
    count = min(spec.search.at_once, len(places))
    if count < 2:
        return None
    usd = placement.worst_usd_per_hour(places, spec.search)
    asks = f"asks for up to {count} slices at once and keeps the first that is ACTIVE"
    if usd is not None:
        return f"{asks}: at worst {usd:.2f} USD/h until the others are withdrawn"
    unknown = [f"{p.accelerator_type} in {p.zone}" for p in places if p.usd_per_hour is None]
    return f"{asks}: the worst case is not known, {', '.join(unknown)} has no list price"


def _asks_regions(spec: JobSpec) -> bool:
    """Whether the regions of the bucket decide where the job asks for slices, or in which order."""
    return not spec.resources.zones or spec.search.at_once > 1


def _bucket_regions(runtime: JobRuntime) -> frozenset[str]:
    """The regions of the context's bucket; none when nobody may tell."""
    try:
        facts = runtime.bulk(runtime.context.bucket).facts()
    except (PermissionDeniedError, NotFoundError, TransientError):
        return frozenset()
    return frozenset(region.lower() for region in facts.data_locations or (facts.location,))


def _check_buckets(runtime: JobRuntime, spec: JobSpec) -> Iterator[Warned]:
    """A bucket that is missing would else be noticed on a slice that is paid."""
    if spec.checkpoints:
        next(iter(runtime.store(spec.checkpoints.dir).list()), None)
    for path, url in spec.file_mounts.items():
        if next(iter(runtime.store(url).list()), None) is None:
            yield Warned(f"file_mounts: there is nothing at {url} for {path} yet")
