"""Changes of a service's record: a replica, an event, a status text."""

from collections.abc import Callable
from dataclasses import replace

from tpuctl.models.inference.service_record import (
    Replica,
    ReplicaState,
    ServiceEvent,
    ServiceRecord,
)

EVENTS_KEPT = 100
RUNNING_STATES = frozenset({ReplicaState.WAITING, ReplicaState.LOADING, ReplicaState.READY})
"""Replicas that count towards the wanted number."""
OVER_STATES = frozenset({ReplicaState.FAILED, ReplicaState.ENDED})


def with_service_event(record: ServiceRecord, text: str, now_s: float) -> ServiceRecord:
    """The record with one more event."""
    return replace(record, events=(*record.events, ServiceEvent(now_s, text))[-EVENTS_KEPT:])


def replace_replica(record: ServiceRecord, replica: Replica) -> ServiceRecord:
    """The record with the replica in place of the one of that number."""
    replicas = tuple(replica if each.number == replica.number else each for each in record.replicas)
    return replace(record, replicas=replicas)


def running_replicas(
    record: ServiceRecord, condition: Callable[[Replica], bool] = lambda _each: True
) -> list[Replica]:
    """The replicas that count towards the wanted number, and meet the condition."""
    return [each for each in record.replicas if each.state in RUNNING_STATES and condition(each)]


def drain(record: ServiceRecord, replica: Replica, why: str, now_s: float) -> ServiceRecord:
    """The record whose replica gets no new requests from now on."""
    draining = replace(replica, state=ReplicaState.DRAINING, drained_since_s=now_s, why=why)
    text = f"replica {replica.number} drains: {why}"
    return with_service_event(replace_replica(record, draining), text, now_s)


def fail(record: ServiceRecord, replica: Replica, why: str, now_s: float) -> ServiceRecord:
    """The record whose replica has failed."""
    failed = replace(replica, state=ReplicaState.FAILED, address=None, ended_s=now_s, why=why)
    text = f"replica {replica.number} failed: {why}"
    return with_service_event(replace_replica(record, failed), text, now_s)
