"""Which replicas begin and which ones drain, so that the wanted number runs the wanted revision."""

from dataclasses import replace

from tpuctl.jobs.services import replica_job
from tpuctl.jobs.services.service_events import drain, running_replicas, with_service_event
from tpuctl.jobs.services.service_observation import ServiceObservation
from tpuctl.models.inference.service_record import Replica, ReplicaState, ServiceRecord

MOST_FAILURES = 5
"""So many replicas in a row may fail; then no other one is begun before an update."""
FIRST_PAUSE_S = 10.0
LONGEST_PAUSE_S = 300.0
STABLE_S = 600.0
"""A replica that was READY for so long was no failure of its revision."""


def count_failures(before: ServiceRecord, record: ServiceRecord, now_s: float) -> ServiceRecord:
    """The record after the failures of its replicas since `before` were counted.

    A revision none of whose replicas was ever READY is given up where another one serves.
    """
    known = {each.number: each.state for each in before.replicas}
    for replica in record.replicas:
        is_new = known.get(replica.number) != replica.state
        if replica.state == ReplicaState.READY:
            record = _note_ready(record, replica, now_s)
        if is_new and replica.state == ReplicaState.FAILED:
            record = _note_failure(record, replica, now_s)
    return record


def is_halted(record: ServiceRecord) -> bool:
    """Whether its replicas fail again and again: none is begun until somebody changes it."""
    return record.failures >= MOST_FAILURES


def next_start_s(record: ServiceRecord) -> float:
    """When the next replica may begin: later with every failure in a row."""
    if not record.failures or record.failed_s is None:
        return 0.0
    pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (record.failures - 1))
    return float(record.failed_s + pause_s)


def adjust_replicas(record: ServiceRecord, seen: ServiceObservation) -> ServiceRecord:
    """The record with the replicas that begin and drain now."""
    record = _drain_old(record, seen.now_s)
    record = _drain_surplus(record, seen.now_s)
    return _begin_missing(record, seen.now_s)


def drain_all(record: ServiceRecord, why: str, now_s: float) -> ServiceRecord:
    """The record whose replicas all drain."""
    for replica in running_replicas(record):
        record = drain(record, replica, why, now_s)
    return record


def old_replicas(record: ServiceRecord) -> list[Replica]:
    """The running replicas of other revisions than the wanted one."""
    wanted = record.revision.number
    return running_replicas(record, lambda each: each.revision != wanted)


def _current(record: ServiceRecord) -> list[Replica]:
    wanted = record.revision.number
    return running_replicas(record, lambda each: each.revision == wanted)


def _is_ready(replica: Replica) -> bool:
    return replica.state == ReplicaState.READY


def _note_ready(record: ServiceRecord, replica: Replica, now_s: float) -> ServiceRecord:
    revision = record.revision_of(replica)
    if revision.ready_s is None:
        ready = replace(revision, ready_s=now_s)
        record = replace(record, revisions=tuple(
            ready if each.number == ready.number else each for each in record.revisions
        ))  # fmt: skip
    is_stable = replica.ready_s is not None and now_s - replica.ready_s >= STABLE_S
    if record.failures and is_stable and replica.number > record.failed_number:
        record = replace(record, failures=0)
    return record


def _note_failure(record: ServiceRecord, replica: Replica, now_s: float) -> ServiceRecord:
    record = replace(record, failed_s=now_s, failed_number=replica.number)
    if replica.ready_s is None or now_s - replica.ready_s < STABLE_S:
        record = replace(record, failures=record.failures + 1)
    revision = record.revision_of(replica)
    others = [each for each in record.revisions if each.ready_s is not None and not each.failure]
    is_wanted = revision.number == record.revision.number
    if not is_wanted or revision.ready_s is not None or not others:
        return record
    given_up = replace(revision, failure=f"replica {replica.number}: {replica.why}")
    record = replace(
        record,
        revisions=tuple(
            given_up if each.number == given_up.number else each for each in record.revisions
        ),
        failures=0,
    )
    text = (
        f"the rollout of revision {revision.number} is given up, revision "
        f"{record.revision.number} stays: {given_up.failure}"
    )
    return with_service_event(record, text, now_s)


def _drain_old(record: ServiceRecord, now_s: float) -> ServiceRecord:
    """Replicas of other revisions go once the wanted number is READY without them.

    One that is not READY goes as soon as the wanted revision has proved that it can be.
    """
    revision, wanted = record.revision, record.wanted_replicas
    old = old_replicas(record)
    why = f"revision {revision.number} takes its place"
    is_proved = any(map(_is_ready, _current(record)))
    serves = any(map(_is_ready, old))
    for replica in old:
        ready = len(running_replicas(record, _is_ready))
        is_needed = ready <= wanted if _is_ready(replica) else serves and not is_proved
        if not is_needed:
            record = drain(record, replica, why, now_s)
    return record


def _drain_surplus(record: ServiceRecord, now_s: float) -> ServiceRecord:
    """More replicas of the wanted revision than are wanted: some go, the on-demand ones last."""
    wanted, floor = record.wanted_replicas, _floor(record)
    while len(current := _current(record)) > wanted:
        on_demand = sum(each.on_demand for each in current)

        def order(replica: Replica, on_demand: int = on_demand) -> tuple[bool, bool, int]:
            is_kept = replica.on_demand and on_demand <= floor
            return (not _is_ready(replica), not is_kept, replica.number)

        record = drain(record, max(current, key=order), f"{wanted} replicas do", now_s)
    return record


def _begin_missing(record: ServiceRecord, now_s: float) -> ServiceRecord:
    """New replicas of the wanted revision: one at a time while it takes the place of another."""
    if is_halted(record) or now_s < next_start_s(record):
        return record
    for _ in range(_missing(record)):
        record = _begin(record, now_s)
    return record


def _missing(record: ServiceRecord) -> int:
    current, wanted = _current(record), record.wanted_replicas
    missing = wanted - len(current)
    old = old_replicas(record)
    # Whoever drains for the new revision has its slice still.
    leaving = [
        each
        for each in record.replicas
        if each.state == ReplicaState.DRAINING and each.revision != record.revision.number
    ]
    if old or leaving:
        missing = min(missing, wanted + 1 - len(current) - len(old) - len(leaving))
    is_unproved = record.revision.ready_s is None and len(record.revisions) > 1
    if is_unproved:
        missing = min(missing, 1 - sum(not _is_ready(each) for each in current))
    return max(0, missing)


def _floor(record: ServiceRecord) -> int:
    """How many replicas of the wanted revision are to be on-demand."""
    spec = record.revision.spec
    if spec.serve is None or not spec.resources.use_spot:
        return 0
    return min(spec.serve.replicas.on_demand, record.wanted_replicas)


def _begin(record: ServiceRecord, now_s: float) -> ServiceRecord:
    on_demand = sum(each.on_demand for each in _current(record)) < _floor(record)
    number, revision = record.next_number, record.revision.number
    replica = Replica(
        number=number,
        job_id=replica_job.job_id_of(record, number),
        revision=revision,
        on_demand=on_demand,
        created_s=now_s,
    )
    begun = replace(record, next_number=number + 1, replicas=(*record.replicas, replica))
    kind = ", on-demand" if on_demand else ""
    return with_service_event(begun, f"replica {number} begins: revision {revision}{kind}", now_s)
