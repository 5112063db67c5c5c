"""Submit a job: check its file and everything it names, then put it into the bucket."""

from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from tpuctl import catalog
from tpuctl.errors import (
    NotFoundError,
    PermissionDeniedError,
    TpuctlError,
    TransientError,
    UsageError,
)
from tpuctl.jobs.interfaces import WantedSlices
from tpuctl.jobs.local import notify_commands, open_jobs, supervisor_lock
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.slices import switch_setup
from tpuctl.jobs.spec import job_file
from tpuctl.jobs.spec.first_job_file import refuse_program as refuse_program
from tpuctl.jobs.submit import job_submission, notify_targets, placement
from tpuctl.jobs.submit.job_submission import Submitter
from tpuctl.jobs.submit.submit_warnings import warnings_for
from tpuctl.models import slice_options
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.models.node import Node
from tpuctl.models.quota_holders import region_of
from tpuctl.operations.jobs import predict_check
from tpuctl.operations.jobs.events import (
    JobNotice,
    JobRuntime,
    Noted,
    Submitted,
    Submitting,
    Warned,
)
from tpuctl.operations.local import local_cloud
from tpuctl.operations.slices import lifecycle, spending_check
from tpuctl.operations.stage.plan.egress_price import egress_warning

MOST_LISTED = 10_000
"""How many objects of a mount are added up for the price of their egress."""


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A job file whose buckets, secrets and node were found."""

    spec: JobSpec
    defaults: Mapping[str, Any]
    """The options of the slices that the context decided."""
    node: Node | None
    submitter: Submitter


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
    spec: JobSpec | None = None
    """A job that was built already, in place of that of the file."""
    over_budget: bool = False
    """Although it exceeds what the context may cost."""


def submit_job(runtime: JobRuntime, request: JobRequest) -> Generator[JobNotice, None, JobRecord]:
    """Check a job file and put the job into the bucket; nobody looks after it yet.

    Raises UsageError, NotFoundError (node, bucket), PreconditionError, ConflictError (another job
    has its checkpoints), RefusedError (a key in the workdir), LocalIOError.
    """
    return (yield from submit_checked(runtime, (yield from check_request(runtime, request))))


def submit_checked(
    runtime: JobRuntime, found: CheckedRequest
) -> Generator[JobNotice, None, JobRecord]:
    """Put the job of a checked file into the bucket; nobody looks after it yet.

    Raises what `submit_job` does.
    """
    context = runtime.context
    host_id = supervisor_lock.ensure_host_id(runtime.home, context.name)
    left_behind: list[str] = []
    submitter = replace(found.submitter, host_id=host_id, say=left_behind.append)
    yield from require_within_limit(runtime, found)
    yield Submitting()
    try:
        job = job_submission.submit(
            found.spec, runtime.outside, submitter, now_s=runtime.now(), node=found.node
        )
    finally:
        yield from map(Noted, left_behind)
    open_jobs.add_jobs(runtime.home, context.name, job.job_id)
    commands = notify_targets.commands_of(found.spec)
    notify_commands.allow(runtime.home, context.name, job.job_id, commands)
    yield Submitted(job)
    if found.defaults:
        yield Noted(slice_options.defaults_text(found.defaults))
    yield from submission_warnings(runtime, job)
    return job


def require_within_limit(
    runtime: JobRuntime, found: CheckedRequest, slices_usd: float | None = None
) -> Iterator[Warned]:
    """Refuse a job, or a service, whose slices exceed what the context may cost.

    `slices_usd` are the USD/h of what is asked for at once, where they are not those of a job.
    Raises RefusedError.
    """
    check, spec, submitter = runtime.check_limit, found.spec, found.submitter
    if check is None or found.node is not None or submitter.over_budget:
        return
    if slices_usd is None:
        place = placement.place_job(spec, None, runtime.context.zone, submitter.regions)
        worst_usd = placement.worst_usd_per_hour(place.places, spec.search)
        slices_usd = place.usd_per_hour if worst_usd is None else worst_usd
    wanted = WantedSlices(slices_usd, most_usd=spending_check.most_usd(spec, slices_usd))
    what = f"{'service' if spec.serve else 'job'} {spec.name!r}"
    warning = spending_check.require_within_limit(check, wanted, what, over_budget=False)
    if warning:
        yield Warned(warning)


def check_file(runtime: JobRuntime, request: JobRequest) -> JobSpec:
    """Read a job file and its secrets before a cloud is started or asked; its bucket is any.

    Raises UsageError, NotFoundError, LocalIOError.
    """
    spec = request.spec or job_file.load(
        request.file, bucket=job_file.ANY_BUCKET, environ=runtime.environ
    )
    job_secrets.resolve_values(spec.secrets, runtime.environ)
    notify_targets.require_known(spec.notify or (), runtime.environ)
    return spec


def check_request(
    runtime: JobRuntime, request: JobRequest
) -> Generator[JobNotice, None, CheckedRequest]:
    """Read a job file and look at everything it names; nothing is written.

    The file comes first: a bad one starts no cloud. Raises UsageError, LocalIOError, NotFoundError
    (node, bucket).
    """
    given = check_file(runtime, request)
    context = runtime.context
    of_context, environ = context.notify, runtime.environ
    yield from map(Warned, notify_targets.context_warnings(given, of_context, environ))
    spec, defaults = _load_spec(runtime, request)
    spec = notify_targets.with_context_targets(spec, of_context, environ)
    yield from _check_buckets(runtime, spec)
    spec = yield from predict_check.check_predict(runtime, spec)
    node = lifecycle.find(runtime.tpu, context.zone, request.node) if request.node else None
    is_configured = context.name in runtime.config.contexts
    submitter = job_submission.Submitter(
        owner=job_submission.default_owner(),
        provides=frozenset() if is_configured else local_cloud.PROVIDES,
        regions=_bucket_regions(runtime) if node is None and _asks_regions(spec) else frozenset(),
        include=request.include,
        over_budget=request.over_budget,
    )
    if node is None and (text := worst_case_text(spec, context.zone, submitter.regions)):
        yield Noted(text)
    return CheckedRequest(spec, defaults, node, submitter)


def submission_warnings(runtime: JobRuntime, job: JobRecord) -> Iterator[Warned]:
    """What may go wrong with a job, or cost more than its author expects."""
    yield from map(Warned, warnings_for(job))
    yield from map(Warned, _egress_warnings(runtime, job))
    if job.node is None and (text := switch_setup.warning(runtime.store(), job.usd_per_hour)):
        yield Warned(text)


def _egress_warnings(runtime: JobRuntime, job: JobRecord) -> Iterator[str]:
    """A line for each bucket of the job file that is in another region than some zone."""
    spec = job.spec
    if spec.checkpoints and (text := _egress_warning(runtime, job, spec.checkpoints.dir)):
        yield f"checkpoints.dir: {text}"
    for path, url in spec.file_mounts.items():
        if _egress_warning(runtime, job, url):
            all_bytes = _size_bytes(runtime, url) * _worker_count(job)
            yield f"file_mounts {path}: {_egress_warning(runtime, job, url, all_bytes)}"


def _egress_warning(
    runtime: JobRuntime, job: JobRecord, url: str, size_bytes: int = 0
) -> str | None:
    """What it costs to read a bucket in the first of the zones that is not in its region."""
    bulk = runtime.bulk(url.removeprefix("gs://").partition("/")[0])
    by_region = {region_of(zone): zone for zone in reversed(job.zones or (job.zone,))}
    texts = (egress_warning(bulk, zone, size_bytes) for zone in reversed(by_region.values()))
    return next(filter(None, texts), None)


def _size_bytes(runtime: JobRuntime, url: str) -> int:
    """The bytes below a URL; 0 where they are not known soon: the job is submitted already."""
    with suppress(TpuctlError):
        entries = list(islice(runtime.store(url).list(), MOST_LISTED + 1))
        if len(entries) <= MOST_LISTED:
            return sum(entry.size_bytes for entry in entries)
    return 0


def _worker_count(job: JobRecord) -> int:
    """How many workers copy what is mounted; 1 for a type that the catalog does not know."""
    with suppress(catalog.UnknownError):
        kind = catalog.accelerator_type(job.accelerator_type)
        return kind.workers * job.spec.resources.num_slices
    return 1


def _load_spec(runtime: JobRuntime, request: JobRequest) -> tuple[JobSpec, Mapping[str, Any]]:
    """The job of a file, and what the context decides of its slices."""
    context = runtime.context
    spec = request.spec or job_file.load(
        request.file, bucket=context.bucket, environ=runtime.environ
    )
    if request.include and spec.workdir is None:
        raise UsageError("--include is for files of the workdir, and the job file has none")
    if request.node:
        return spec, {}
    wanted = spec.resources
    if request.zone:
        slice_options.check_disks(
            wanted.options.data_disks, request.zone, "resources.data_disks and --zone"
        )
        wanted = replace(wanted, zones=(request.zone,))
    applied = slice_options.applied_defaults(context.slice_defaults, wanted.options.given)
    options = replace(wanted.options, **applied)
    found = replace(spec, resources=replace(wanted, options=options))
    return found, applied


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
        return frozenset(runtime.bulk(runtime.context.bucket).facts().regions)
    except (PermissionDeniedError, NotFoundError, TransientError):
        return frozenset()


def _check_buckets(runtime: JobRuntime, spec: JobSpec) -> Iterator[Warned]:
    """A bucket that is missing would else be noticed on a slice that is paid."""
    if spec.checkpoints:
        next(iter(runtime.store(spec.checkpoints.dir).list()), None)
    for path, url in spec.file_mounts.items():
        if next(iter(runtime.store(url).list()), None) is None:
            yield Warned(f"file_mounts: there is nothing at {url} for {path} yet")
    yield from checkpoint_warnings(runtime, spec)


def checkpoint_warnings(runtime: JobRuntime, spec: JobSpec) -> Iterator[Warned]:
    """A warning when the engine of a service is to load what is not there; raises UsageError."""
    url = (spec.serve and spec.serve.checkpoint) or ""
    if not url.startswith("gs://"):
        return  # a name that the engine knows
    try:
        is_empty = next(iter(runtime.store(url).list()), None) is None
    except NotFoundError:
        is_empty = True
    except (PermissionDeniedError, TransientError):
        return  # the workers may have other rights
    if is_empty:
        yield Warned(f"serve.checkpoint: there is nothing at {url} yet")
