"""Put a service into the bucket, or give one another revision; a price comes before either."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tpuctl.errors import JobFailedError, UsageError
from tpuctl.jobs.leases.lease import service_lease_id
from tpuctl.jobs.local import notify_commands, open_jobs, supervisor_lock
from tpuctl.jobs.secrets import job_secrets, secret_handover
from tpuctl.jobs.services import service_store, service_submission
from tpuctl.jobs.services.rollout import is_halted, old_replicas
from tpuctl.jobs.services.service_submission import RevisionDraft
from tpuctl.jobs.spec import job_file
from tpuctl.jobs.submit import notify_targets
from tpuctl.jobs.submit.job_submission import Submitter
from tpuctl.models.inference.serve_spec import ServeSpec
from tpuctl.models.inference.service_record import Revision, ServiceRecord, ServiceState
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.operations.jobs import supervision
from tpuctl.operations.jobs.events import (
    JobNotice,
    JobRuntime,
    Noted,
    SecretsHandedOver,
    ServiceChanged,
    ServiceSubmitted,
    Submitting,
)
from tpuctl.operations.jobs.plan import JobPlan, plan_job
from tpuctl.operations.jobs.submit import (
    CheckedRequest,
    JobRequest,
    check_file,
    check_request,
    checkpoint_warnings,
    require_within_limit,
    submission_warnings,
    submit_checked,
)

POLL_S = 0.5
SUPERVISOR_CHECK_S = 30.0


@dataclass(frozen=True, slots=True)
class PlannedUpdate:
    """An update of a service that is not written yet."""

    service: ServiceRecord
    draft: RevisionDraft
    submitter: Submitter
    changes: tuple[tuple[str, str, str], ...]
    """What is another: its name in the job file, how it was, and how it will be."""


def create_service(
    runtime: JobRuntime, found: CheckedRequest
) -> Generator[JobNotice, None, ServiceRecord]:
    """Put the service of a checked job file into the bucket, and see that it is looked after.

    Raises ConflictError when the name is taken, UsageError, RefusedError (a key in the workdir),
    LocalIOError, TransientError when no supervisor comes up.
    """
    if found.node is not None:
        raise UsageError(
            "a service runs on slices of its own", hint="leave out --node, or serve in the file"
        )
    spec, context = found.spec, runtime.context
    lines: list[str] = []
    submitter = _submitter(runtime, found, lines)
    service_store.refuse_taken(runtime.store(), spec.name)
    draft = service_submission.draft_revision(spec, 1, runtime.outside, submitter, runtime.now())
    yield Noted(price_text(draft.revision, draft.job.zones))
    least = spec.serve.replicas.min if spec.serve else 1
    yield from require_within_limit(runtime, found, usd_of_replicas(draft.revision, least))
    yield Submitting()
    try:
        record = service_submission.create_service(runtime.outside, draft, submitter, runtime.now())
    finally:
        yield from map(Noted, lines)
    open_jobs.add_jobs(runtime.home, context.name, service_lease_id(record.name))
    yield ServiceSubmitted(record)
    yield from submission_warnings(runtime, draft.job)
    yield from hand_to_supervisor(runtime, record)
    return record


def submit_job_or_service(
    runtime: JobRuntime, request: JobRequest, *, is_awaited: bool = False
) -> Generator[JobNotice, None, JobRecord | ServiceRecord]:
    """Put what a job file asks for into the bucket: a service, where it has `serve`, or a job.

    Raises what `create_service` and `submit_job` raise, and UsageError for a service whose end is
    to be awaited.
    """
    found = yield from check_request(runtime, request)
    if found.spec.serve is not None and is_awaited:
        raise UsageError(
            f"{request.file} is of a service, which goes on until it is deleted",
            hint=f"run: tpuctl job submit {request.file}",
        )
    if found.spec.serve is not None:
        return (yield from create_service(runtime, found))
    return (yield from submit_checked(runtime, found))


def plan_job_or_service(
    runtime: JobRuntime, request: JobRequest
) -> Generator[JobNotice, None, JobPlan]:
    """What the submission of a job file would do and cost; nothing is written.

    Raises what the submission would raise before it writes.
    """
    planned = yield from plan_job(runtime, request)
    spec = planned.job.spec
    if spec.serve is not None:
        submitter = Submitter(
            owner=planned.job.owner, provides=frozenset(filter(None, (spec.requires,)))
        )
        placed = replace(spec, resources=replace(spec.resources, zones=planned.job.zones))
        draft = service_submission.draft_revision(
            placed, 1, runtime.outside, submitter, runtime.now()
        )
        yield Noted(price_text(draft.revision, planned.job.zones))
    return planned


def submit_file(
    runtime: JobRuntime, request: JobRequest
) -> Generator[JobNotice, None, ServiceRecord]:
    """Create the service of a job file, which must have `serve`: what `tpuctl serve FILE` does."""
    found = yield from check_request(runtime, request)
    if found.spec.serve is None:
        raise UsageError(
            f"{request.file} has no serve: it is a job",
            hint=f"run: tpuctl job submit {request.file}",
        )
    return (yield from create_service(runtime, found))


def plan_update(
    runtime: JobRuntime, name: str, request: JobRequest | None, checkpoint: str | None
) -> Generator[JobNotice, None, PlannedUpdate]:
    """The update of a service to a job file, to another checkpoint, or both; nothing is written.

    Raises NotFoundError, UsageError.
    """
    if request is not None:
        _require_service(check_file(runtime, request), name)
    service = service_store.load(runtime.store(), name).record
    lines: list[str] = []
    newest = service.revisions[-1]
    if request is not None:
        found = yield from check_request(runtime, request)
        spec, submitter = found.spec, _submitter(runtime, found, lines)
    else:
        spec = newest.spec
        submitter = Submitter(
            owner=service.owner,
            host_id=service.host_id,
            provides=frozenset(filter(None, (spec.requires,))),
            regions=frozenset(newest.regions),
            say=lines.append,
        )
    if checkpoint is not None and spec.serve is not None:
        url = job_file.expand_bucket(checkpoint, runtime.context.bucket)
        spec = replace(spec, serve=replace(spec.serve, checkpoint=url))
        yield from checkpoint_warnings(runtime, spec)
    number = service_submission.next_revision(service)
    draft = service_submission.draft_revision(
        spec, number, runtime.outside, submitter, runtime.now()
    )
    if request is None:  # the files are those that the bucket has
        revision = replace(
            draft.revision,
            workdir_sha256=newest.workdir_sha256,
            workdir_key=newest.workdir_key,
        )
        draft = replace(draft, revision=revision)
    yield from map(Noted, lines)
    return PlannedUpdate(service, draft, submitter, tuple(changes(newest.spec, spec)))


def update_service(
    runtime: JobRuntime, planned: PlannedUpdate
) -> Generator[JobNotice, None, ServiceRecord]:
    """Carry out an update: its revision goes into the bucket, and a supervisor rolls it out.

    Raises PreconditionError when somebody else was faster, RefusedError, LocalIOError.
    """
    store, name, revision = runtime.store(), planned.service.name, planned.draft.revision
    if revision.workdir_sha256 is None:
        revision = service_submission.upload_workdir(store, name, revision, planned.submitter)
    host_id = planned.submitter.host_id
    record = service_submission.update_service(store, name, revision, host_id, runtime.now())
    yield from hand_to_supervisor(runtime, record)
    return record


def hand_to_supervisor(runtime: JobRuntime, record: ServiceRecord) -> Iterator[JobNotice]:
    """See that a supervisor runs here, and give it the service's secrets of this environment."""
    yield from supervision.start_supervisor(runtime)
    wanted = job_secrets.references_to(record.revision.spec.secrets, job_secrets.ENVIRONMENT)
    known = {name: where for name, where in wanted.items() if _is_known(runtime, where)}
    spec, lease_id = record.revision.spec, service_lease_id(record.name)
    values = job_secrets.resolve_values(known, runtime.environ)
    values |= notify_targets.known_values(spec, runtime.environ)
    commands = notify_targets.commands_of(spec)
    notify_commands.allow(runtime.home, runtime.context.name, lease_id, commands)
    if values:
        home, context = runtime.home, runtime.context.name
        secret_handover.hand_over(home, context, lease_id, values)
        yield SecretsHandedOver(tuple(values))


def wait_until_rolled_out(
    runtime: JobRuntime, name: str, number: int
) -> Generator[JobNotice, None, ServiceRecord]:
    """Wait until every replica that is wanted is READY with a revision, and tell what happens.

    Raises JobFailedError when the revision is given up or its replicas fail again and again,
    NotFoundError when the service is deleted meanwhile.
    """
    shown = ""
    for record in _changes_of(runtime, name):
        if (text := f"{record.state}: {record.why}") != shown:
            shown = text
            yield ServiceChanged(record)
        if error := rollout_error(record, number):
            raise error
        if is_rolled_out(record, number):
            return record
    raise AssertionError("a service changes until it is deleted")


def is_rolled_out(record: ServiceRecord, number: int) -> bool:
    """Whether every replica that is wanted is READY with the revision, or a later one.

    A record with fewer replicas than the revision wants was not yet judged by it.
    """
    serve = record.revision.spec.serve
    is_whole = record.state in (ServiceState.READY, ServiceState.IDLE)
    is_judged = serve is None or record.wanted_replicas >= serve.replicas.min
    is_wanted = record.revision.number >= number
    return is_whole and is_judged and is_wanted and not old_replicas(record)


def rollout_error(record: ServiceRecord, number: int) -> JobFailedError | None:
    """Why a revision was not rolled out; None while it may be."""
    given_up = next((each.failure for each in record.revisions if each.number == number), "")
    hint = f"run: tpuctl service logs {record.name}"
    if given_up:
        return JobFailedError(
            f"revision {number} of service {record.name!r} was given up, revision "
            f"{record.revision.number} stays: {given_up}",
            hint=hint,
        )
    if is_halted(record):
        return JobFailedError(f"service {record.name!r}: {record.why}", hint=hint)
    return None


def rollout_text(record: ServiceRecord, number: int) -> str:
    """What becomes of a service's replicas by a revision."""
    added = next(each for each in record.revisions if each.number == number)
    how = "it is rolled out one replica at a time"
    if added.same_engine_as is not None:
        how = "its engine is the same, no replica is replaced for it"
    return f"revision {number} of service {record.name} is submitted: {how}"


def price_text(revision: Revision, zones: tuple[str, ...]) -> str:
    """What the replicas of a revision cost, the least and the most of them."""
    spec = revision.spec
    limits = spec.serve.replicas if spec.serve else ServeSpec("", 0).replicas
    types = " or ".join(spec.resources.types)
    number = f"{limits.min}" if limits.min == limits.max else f"{limits.min} to {limits.max}"
    word = "replica" if limits.max == 1 else "replicas"
    floor = limits.on_demand if spec.resources.use_spot else 0
    kind = f", {floor} of them on-demand" if floor else ""
    where = f"{number} {word} of {types} in {' or '.join(zones)}{kind}"
    least, most = usd_of_replicas(revision, limits.min), usd_of_replicas(revision, limits.max)
    if least is None or most is None:
        return f"{where}: no list price is known"
    price = f"{most:.2f}" if least == most else f"{least:.2f} to {most:.2f}"
    return f"{where}: {price} USD/h while READY"


def usd_of_replicas(revision: Revision, count: int) -> float | None:
    """USD per hour of so many replicas; None where no price is known."""
    spec = revision.spec
    floor = spec.serve.replicas.on_demand if spec.serve and spec.resources.use_spot else 0
    on_demand = min(floor, count)
    prices = (
        (count - on_demand, revision.usd_per_hour),
        (on_demand, revision.on_demand_usd_per_hour),
    )
    known = [number * usd for number, usd in prices if number and usd is not None]
    is_known = all(usd is not None for number, usd in prices if number)
    return sum(known) if is_known else None


def changes(before: JobSpec, after: JobSpec) -> Iterator[tuple[str, str, str]]:
    """What two job files say differently: the name, how it was, how it is."""
    yield from _differences("", before, after)


def _differences(path: str, before: Any, after: Any) -> Iterator[tuple[str, str, str]]:
    names = getattr(type(before), "__dataclass_fields__", {})
    if type(before) is type(after) and names:
        for name in names:
            place = f"{path}.{name}".lstrip(".")
            yield from _differences(place, getattr(before, name), getattr(after, name))
    elif before != after and path not in ("run", "workdir"):
        yield path, _text(before), _text(after)


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key}={each}" for key, each in value.items()) or "none"
    return "none" if value is None else str(value)


def _require_service(spec: JobSpec, name: str) -> None:
    """Raise UsageError unless a job file is of that service."""
    if spec.serve is None:
        raise UsageError(
            f"the job file has no serve: it cannot update service {name!r}",
            hint="run: tpuctl help services",
        )
    if spec.name != name:
        raise UsageError(
            f"the job file is of service {spec.name!r}, not {name!r}",
            hint=f"run: tpuctl service update {spec.name} FILE",
        )


def _submitter(runtime: JobRuntime, found: CheckedRequest, lines: list[str]) -> Submitter:
    host_id = supervisor_lock.ensure_host_id(runtime.home, runtime.context.name)
    return replace(found.submitter, host_id=host_id, say=lines.append)


def _is_known(runtime: JobRuntime, where: str) -> bool:
    return bool(runtime.environ.get(where.removeprefix(job_secrets.ENVIRONMENT)))


def _changes_of(runtime: JobRuntime, name: str) -> Iterator[ServiceRecord]:
    """The record at each of its changes. Raises NotFoundError once the service is gone."""
    store, generation = runtime.store(), 0
    while True:
        stored = None
        if service_store.generation(store, name) != generation:
            stored = service_store.load(store, name)
        if stored is not None:
            generation = stored.generation
            yield stored.record
        runtime.sleep(POLL_S)
