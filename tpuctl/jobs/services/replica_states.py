"""The state of each replica of a service, by its job, its slice and its ready path."""

from dataclasses import replace

from tpuctl.jobs.services.service_events import OVER_STATES, drain, fail, replace_replica
from tpuctl.jobs.services.service_events import with_service_event as with_event
from tpuctl.jobs.services.service_observation import ReplicaSlice, ServiceObservation
from tpuctl.models.inference.service_record import Replica, ReplicaState, ServiceRecord
from tpuctl.models.job import AttemptOutcome, AttemptState, JobRecord

UNREADY_S = 10.0
"""A replica that was READY and does not answer for this long gets no requests until it does."""
DEAD_S = 120.0
"""One that does not answer for this long has failed, though its program still runs."""
UNSEEN_S = 60.0
"""The job of a replica that is not there may still appear for this long: its writer was late."""
NOTICES = {"preempted": "got notice of its preemption", "terminated": "is being shut down"}


def observe_replicas(record: ServiceRecord, seen: ServiceObservation) -> ServiceRecord:
    """The record with the states that follow from what was seen."""
    for replica in record.replicas:
        if replica.state != ReplicaState.ENDED:
            record = _observe(record, replica, seen)
    return record


def is_gone(replica: Replica, seen: ServiceObservation) -> bool:
    """Whether neither the job of a replica nor a slice of it is left."""
    if replica.job_id not in seen.jobs:
        return False
    job = seen.jobs[replica.job_id]
    if job is None:
        return seen.now_s - replica.created_s > UNSEEN_S
    return job.is_settled


def has_drained(record: ServiceRecord, replica: Replica, seen: ServiceObservation) -> bool:
    """Whether a draining replica may end: it has no request, or has had its time.

    Every proxy that lives has said so since the drain began.
    """
    since_s = replica.drained_since_s
    serve = record.revision_of(replica).spec.serve
    if replica.ready_s is None or since_s is None or serve is None:
        return True
    if seen.now_s - since_s >= serve.drain_s or not _has_its_slice(replica, seen):
        return True
    return all(
        each.first_seen_s >= since_s
        and replica.number not in each.report.routed
        and not each.report.in_flight.get(str(replica.number), 0)
        for each in seen.proxies
    )


def _has_its_slice(replica: Replica, seen: ServiceObservation) -> bool:
    """Whether the engine that has the replica's requests may still run."""
    job = seen.jobs.get(replica.job_id)
    if job is None:
        return replica.job_id not in seen.jobs
    attempt = job.attempt
    is_same = attempt is not None and attempt.number == replica.attempt
    return is_same and attempt is not None and attempt.state == AttemptState.RUNNING


def _observe(record: ServiceRecord, replica: Replica, seen: ServiceObservation) -> ServiceRecord:
    now_s = seen.now_s
    if replica.state == ReplicaState.FAILED:
        return record
    if replica.state == ReplicaState.DRAINING:
        ended = replace(replica, state=ReplicaState.ENDED, address=None, ended_s=now_s)
        return replace_replica(record, ended) if is_gone(replica, seen) else record
    if refusal := seen.refusals.get(replica.number):
        return fail(record, replica, refusal, now_s)
    job = seen.jobs.get(replica.job_id)
    return record if job is None else _observe_job(record, replica, job, seen)


def _observe_job(
    record: ServiceRecord, replica: Replica, job: JobRecord, seen: ServiceObservation
) -> ServiceRecord:
    if job.cancel_requested_s is not None:
        return drain(record, replica, "its job was cancelled", seen.now_s)
    if job.is_ended:
        return fail(record, replica, job.why, seen.now_s)
    if why := _notice(job):
        return drain(record, replica, why, seen.now_s)
    return _observe_slice(record, replica, job, seen)


def _notice(job: JobRecord) -> str:
    """Why the slice of a job will be gone soon; empty where nobody said so.

    An engine without requests may end at the notice: its job looks for another slice only when
    this one is gone, which another replica need not wait for.
    """
    attempt = job.attempt
    if attempt is None or attempt.deleted_s is not None:
        return ""
    for report in attempt.workers:
        text = NOTICES.get(report.notice or "")
        if attempt.outcome == AttemptOutcome.PREEMPTED and report.preempted:
            text = NOTICES["preempted"]
        if text and (attempt.state == AttemptState.RUNNING or report.preempted):
            return f"worker {report.worker_id} {text}"
    return ""


def _observe_slice(
    record: ServiceRecord, replica: Replica, job: JobRecord, seen: ServiceObservation
) -> ServiceRecord:
    attempt = job.attempt
    if attempt is None or attempt.state != AttemptState.RUNNING:
        return _without_slice(record, replica, job, seen.now_s)
    found = seen.slices.get(replica.number)
    if found is None or found.attempt != attempt.number:
        return record
    if replica.attempt != attempt.number:
        replica = replace(replica, attempt=attempt.number, ready_s=None, unready_since_s=None)
    replica = replace(replica, address=found.address)
    if replica.ready_s is None:
        return _observe_start(record, replica, found, attempt.started_s, seen.now_s)
    return _observe_running(record, replica, found, seen.now_s)


def _without_slice(
    record: ServiceRecord, replica: Replica, job: JobRecord, now_s: float
) -> ServiceRecord:
    if replica.state == ReplicaState.WAITING:
        return record
    waiting = replace(
        replica, state=ReplicaState.WAITING, address=None, ready_s=None, unready_since_s=None
    )
    text = f"replica {replica.number} has no engine: {job.why}"
    return with_event(replace_replica(record, waiting), text, now_s)


def _observe_start(
    record: ServiceRecord,
    replica: Replica,
    found: ReplicaSlice,
    started_s: float | None,
    now_s: float,
) -> ServiceRecord:
    """The engine of this slice has not been READY yet."""
    if found.is_ready:
        ready = replace(replica, state=ReplicaState.READY, ready_s=now_s, why="")
        return with_event(
            replace_replica(record, ready), f"replica {replica.number} is READY", now_s
        )
    serve = record.revision_of(replica).spec.serve
    limit_s = serve.start_s if serve else 0.0
    if started_s is not None and now_s - started_s > limit_s:
        path = serve.ready if serve else ""
        return fail(record, replica, f"{path} did not answer 200 within {limit_s:.0f} s", now_s)
    return replace_replica(record, replace(replica, state=ReplicaState.LOADING))


def _observe_running(
    record: ServiceRecord, replica: Replica, found: ReplicaSlice, now_s: float
) -> ServiceRecord:
    """The engine has been READY on this slice."""
    if found.is_ready is not False:
        was_away = replica.state != ReplicaState.READY
        back = replace(replica, state=ReplicaState.READY, unready_since_s=None, why="")
        record = replace_replica(record, back)
        text = f"replica {replica.number} is READY again"
        return with_event(record, text, now_s) if was_away else record
    since_s = now_s if replica.unready_since_s is None else replica.unready_since_s
    replica = replace(replica, unready_since_s=since_s)
    serve = record.revision_of(replica).spec.serve
    why = f"{serve.ready if serve else ''} does not answer 200"
    if now_s - since_s >= DEAD_S:
        return fail(record, replica, f"{why} for {DEAD_S:.0f} s", now_s)
    if now_s - since_s < UNREADY_S or replica.state == ReplicaState.LOADING:
        return replace_replica(record, replica)
    away = replace(replica, state=ReplicaState.LOADING, why=why)
    return with_event(
        replace_replica(record, away), f"replica {replica.number} gets no requests: {why}", now_s
    )


def is_over(replica: Replica) -> bool:
    """Whether a replica serves nobody any more."""
    return replica.state in OVER_STATES
