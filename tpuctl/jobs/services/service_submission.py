"""Creating a service and giving it another revision: everything it needs goes into the bucket."""

import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tpuctl.errors import PreconditionError
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.leases import lease
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.services import replica_job, rollout, service_store
from tpuctl.jobs.services.service_events import with_service_event
from tpuctl.jobs.submit import job_submission, workdir_archive
from tpuctl.jobs.submit.job_submission import Submitter
from tpuctl.models.inference.serve_spec import ReplicaRange
from tpuctl.models.inference.service_record import Revision, ServiceRecord
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.store import Store


@dataclass(frozen=True, slots=True)
class RevisionDraft:
    """A revision that is not in the bucket yet, and the job that a replica of it would be."""

    revision: Revision
    job: JobRecord


def draft_revision(
    spec: JobSpec, number: int, backends: Backends, submitter: Submitter, now_s: float
) -> RevisionDraft:
    """A revision as it would be written; nothing is. Raises as job_submission.draft_record."""
    job = job_submission.draft_record(spec, backends, submitter, now_s=now_s)
    revision = Revision(
        number=number,
        spec=spec,
        created_s=now_s,
        regions=tuple(sorted(submitter.regions)),
        usd_per_hour=job.usd_per_hour,
        over_budget=submitter.over_budget,
    )
    on_demand = job_submission.draft_record(
        replica_job.replica_spec(revision, on_demand=True),
        backends,
        replace(submitter, say=lambda _line: None),
        now_s=now_s,
    )
    return RevisionDraft(replace(revision, on_demand_usd_per_hour=on_demand.usd_per_hour), job)


def create_service(
    backends: Backends, draft: RevisionDraft, submitter: Submitter, now_s: float
) -> ServiceRecord:
    """Put a service with its first revision into the bucket; nobody looks after it yet.

    Raises ConflictError when the name is taken, RefusedError (a key in the workdir), LocalIOError.
    """
    store, name = backends.store, draft.job.spec.name
    service_store.refuse_taken(store, name)
    revision = upload_workdir(store, name, draft.revision, submitter)
    record = ServiceRecord(
        name=name,
        owner=submitter.owner,
        created_s=now_s,
        revisions=(revision,),
        host_id=submitter.host_id,
        wanted_replicas=max(1, _range(revision.spec).min),
    )
    lease_id = lease.service_lease_id(name)
    with suppress(PreconditionError):  # of a service of that name that was cut short
        lease.offer(store, lease_id, submitter.owner)
    created = service_store.create(store, record)
    lease.renew_offer(store, lease_id, submitter.owner)
    return created.record


def update_service(
    store: Store, name: str, revision: Revision, host_id: str, now_s: float
) -> ServiceRecord:
    """Add a revision, which the supervisor rolls out from now on.

    Raises NotFoundError, and PreconditionError for a service that is being deleted, or that has
    got a revision of this number meanwhile.
    """

    def add(record: ServiceRecord) -> ServiceRecord:
        if record.is_deleting:
            raise PreconditionError(
                f"service {name!r} is being deleted", hint="run: tpuctl service list"
            )
        if next_revision(record) != revision.number:
            raise PreconditionError(
                f"service {name!r} was updated by somebody else",
                hint=f"look, then update it again: tpuctl service describe {name}",
            )
        added = rollout.with_engine_of(revision, record.revisions[-1])
        revisions = (*record.revisions, added)
        updated = replace(record, revisions=revisions, host_id=host_id, failures=0)
        return with_service_event(updated, f"revision {revision.number} is submitted", now_s)

    updated = service_store.change(store, name, add)
    lease.renew_offer(store, lease.service_lease_id(name), updated.owner)
    lease.notify_holder(store, lease.service_lease_id(name))
    return updated


def delete_service(store: Store, name: str, now_s: float) -> ServiceRecord:
    """Ask a service's supervisor for its end, and that of its slices. Raises NotFoundError."""
    record = service_store.request_delete(store, name, now_s)
    lease.renew_offer(store, lease.service_lease_id(name), record.owner)
    lease.notify_holder(store, lease.service_lease_id(name))
    return record


def next_revision(record: ServiceRecord) -> int:
    """The number of a service's next revision."""
    return record.revisions[-1].number + 1


def upload_workdir(store: Store, name: str, revision: Revision, submitter: Submitter) -> Revision:
    """The revision, with its working directory in the bucket. Raises RefusedError, LocalIOError."""
    spec = revision.spec
    if spec.workdir is None:
        return revision
    key = service_store.workdir_key(name, revision.number)
    with tempfile.TemporaryFile() as packed:
        digest = workdir_archive.pack(
            Path(spec.workdir),
            packed,
            submitter.include,
            secret_files=job_secrets.secret_files(spec.secrets),
            say=submitter.say,
        )
        entry = store.head(key)  # of an update that was cut short
        store.put_if_generation(key, packed, entry.generation if entry else 0)
    return replace(revision, workdir_sha256=digest, workdir_key=key)


def _range(spec: JobSpec) -> ReplicaRange:
    return spec.serve.replicas if spec.serve else ReplicaRange()
