"""One step of a service's life as a pure function: record and world in, record and actions out.

The record is written before its actions are carried out, so that every replica has its job's id on
record. Actions are repeated until the world shows their effect.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tpuctl.jobs.services import rollout, scaling
from tpuctl.jobs.services.replica_states import has_drained, is_gone, is_over, observe_replicas
from tpuctl.jobs.services.service_events import running_replicas, with_service_event
from tpuctl.jobs.services.service_observation import (
    CancelReplica,
    ServiceAction,
    ServiceObservation,
    SubmitReplica,
)
from tpuctl.models.inference.service_record import (
    Replica,
    ReplicaState,
    ServiceRecord,
    ServiceState,
)

OVER_KEPT = 10
"""So many replicas that are gone stay on record, for people."""
REVISIONS_KEPT = 10


@dataclass(frozen=True, slots=True)
class ServiceStep:
    """The record to write, and the actions to carry out after that."""

    record: ServiceRecord
    actions: tuple[ServiceAction, ...]


def reconcile_service(record: ServiceRecord, seen: ServiceObservation) -> ServiceStep:
    """Advance a service by what was observed. Pure: no call, no clock."""
    before, record = record, observe_replicas(record, seen)
    record = rollout.count_failures(before, record, seen.now_s)
    if record.is_deleting:
        record = rollout.drain_all(record, "the service is deleted", seen.now_s)
    else:
        record = rollout.adjust_replicas(scaling.scale(record, seen), seen)
    record = _with_state(_forget_gone(record, seen), seen)
    return ServiceStep(record, tuple(_required_actions(record, seen)))


def _required_actions(record: ServiceRecord, seen: ServiceObservation) -> Iterator[ServiceAction]:
    for replica in record.replicas:
        is_known = replica.job_id in seen.jobs
        job = seen.jobs.get(replica.job_id)
        if job is None:
            # What has just begun was never looked for, and cannot be there.
            is_new = not is_known and replica.created_s >= seen.now_s
            if replica.state == ReplicaState.WAITING and (is_known or is_new):
                yield SubmitReplica(replica.number)
        elif (
            not job.is_ended and job.cancel_requested_s is None and _must_end(record, replica, seen)
        ):
            yield CancelReplica(replica.number)


def _must_end(record: ServiceRecord, replica: Replica, seen: ServiceObservation) -> bool:
    if replica.state == ReplicaState.DRAINING:
        return has_drained(record, replica, seen)
    return is_over(replica)


def _forget_gone(record: ServiceRecord, seen: ServiceObservation) -> ServiceRecord:
    """The record without the replicas that are long gone, and without revisions nobody needs."""
    over = [each for each in record.replicas if is_over(each)]
    known = [each for each in over if each.state == ReplicaState.ENDED or is_gone(each, seen)]
    forgotten = {each.number for each in known[:-OVER_KEPT]}
    replicas = tuple(each for each in record.replicas if each.number not in forgotten)
    used = {each.revision for each in replicas} | {record.revision.number}
    newest = {each.number for each in record.revisions[-REVISIONS_KEPT:]}
    revisions = tuple(each for each in record.revisions if each.number in used | newest)
    return replace(record, replicas=replicas, revisions=revisions)


def _with_state(record: ServiceRecord, seen: ServiceObservation) -> ServiceRecord:
    state, why = _state(record, seen)
    ended_s = record.ended_s
    if state == ServiceState.DELETED and ended_s is None:
        ended_s = seen.now_s
    changed = replace(record, state=state, why=why, ended_s=ended_s)
    if state == record.state:
        return changed
    return with_service_event(changed, f"{state}: {why}", seen.now_s)


def _state(record: ServiceRecord, seen: ServiceObservation) -> tuple[ServiceState, str]:
    if record.is_deleting:
        return _end_state(record, seen)
    if rollout.is_halted(record):
        numbers = {each.number: each.why for each in record.replicas}
        why = numbers.get(record.failed_number, "")
        failed = f"{record.failures} replicas in a row failed"
        return ServiceState.DEGRADED, f"{failed}, none is begun before an update: {why}"
    state, text = _running_state(record)
    newest = record.revisions[-1]
    if newest.failure:
        text += f"; revision {newest.number} was given up: {newest.failure}"
    return state, text


def _end_state(record: ServiceRecord, seen: ServiceObservation) -> tuple[ServiceState, str]:
    left = sum(
        each.state != ReplicaState.ENDED and not is_gone(each, seen) for each in record.replicas
    )
    if left:
        return ServiceState.DELETING, f"{_count(left)} not gone yet"
    return ServiceState.DELETED, "its replicas are gone"


def _running_state(record: ServiceRecord) -> tuple[ServiceState, str]:
    ready, wanted = record.ready_replicas, record.wanted_replicas
    number = record.revision.number
    if old := rollout.old_replicas(record):
        text = f"revision {number} is rolled out: {_count(len(old))} of another revision left"
        return ServiceState.UPDATING, text
    if wanted == 0:
        return ServiceState.IDLE, "no request waits: no replica is wanted"
    text = f"{ready} of {_count(wanted)} READY"
    if ready >= wanted:
        return ServiceState.READY, text
    waiting = running_replicas(record, lambda each: each.state != ReplicaState.READY)
    text += "".join(f"; {each.why}" for each in waiting[:1] if each.why)
    was_ready = any(each.ready_s is not None for each in record.revisions)
    return (ServiceState.DEGRADED if was_ready else ServiceState.STARTING), text


def _count(number: int) -> str:
    return f"{number} replica{'s' * (number != 1)}"
