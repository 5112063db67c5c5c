"""The job of a replica: its id, its specification, and how it gets into the bucket."""

import hashlib
from contextlib import suppress
from dataclasses import replace

from tpuctl.errors import PreconditionError
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.submit import job_submission
from tpuctl.jobs.submit.job_submission import Submitter
from tpuctl.models.inference.serve_spec import ReplicaOf
from tpuctl.models.inference.service_record import Replica, Revision, ServiceRecord
from tpuctl.models.job import JobRecord, JobSpec

ID_DIGITS = 6


def job_id_of(record: ServiceRecord, number: int) -> str:
    """The id of a replica's job, the same whenever it is asked for: a create may be repeated."""
    told = f"{record.name} {record.created_s} {number}".encode()
    return f"{record.name}-{hashlib.sha256(told).hexdigest()[:ID_DIGITS]}"


def replica_spec(revision: Revision, *, on_demand: bool) -> JobSpec:
    """What the job of a replica asks for."""
    spec = revision.spec
    if not on_demand:
        return spec
    return replace(spec, resources=replace(spec.resources, use_spot=False))


def submit_replica(
    backends: Backends, record: ServiceRecord, replica: Replica, now_s: float
) -> None:
    """Put the job of a replica into the bucket, unless it is there.

    Raises CapacityError (external addresses), UsageError, TransientError and its kin.
    """
    revision = record.revision_of(replica)
    spec = replica_spec(revision, on_demand=replica.on_demand)
    submitter = Submitter(
        owner=record.owner,
        host_id=record.host_id,
        provides=frozenset(filter(None, (spec.requires,))),
        regions=frozenset(revision.regions),
        over_budget=revision.over_budget,
    )
    drafted = job_submission.draft_record(spec, backends, submitter, now_s=now_s)
    job = replace(
        drafted,
        job_id=replica.job_id,
        workdir_sha256=revision.workdir_sha256,
        workdir_key=revision.workdir_key,
        replica=ReplicaOf(record.name, revision.number, replica.number),
    )
    with suppress(PreconditionError):  # it is there: the reply to an earlier try was lost
        job_submission.put_job(backends.store, job)


def is_replica(job: JobRecord, service: str) -> bool:
    """Whether a job is a replica of the service."""
    return job.replica is not None and job.replica.service == service
