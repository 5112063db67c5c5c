"""Which replicas begin and which ones drain, so that the wanted number runs the wanted revision."""

from dataclasses import replace

from tpuctl.jobs.services import replica_job
from tpuctl.jobs.services.service_events import drain, running_replicas, with_service_event
from tpuctl.jobs.services.service_observation import ServiceObservation
from tpuctl.models.inference.serve_spec import ReplicaRange
from tpuctl.models.inference.service_record import (
    Replica,
    ReplicaState,
    Revision,
    ServiceRecord,
)
from tpuctl.models.job import JobSpec

MOST_FAILURES = 5
"""So many replicas in a row may fail; then no other one is begun before an update."""
FIRST_PAUSE_S = 10.0
LONGEST_PAUSE_S = 300.0
STABLE_S = 600.0
"""A replica that was READY for so long does not count as a failure of its revision."""


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
    """The running replicas whose engine is another one than the wanted revision's."""
    return running_replicas(record, lambda each: not _is_current(record, each))


def _current(record: ServiceRecord) -> list[Replica]:
    return running_replicas(record, lambda each: _is_current(record, each))


def _is_current(record: ServiceRecord, replica: Replica) -> bool:
    return record.revision_of(replica).engine == record.revision.engine


def with_engine_of(revision: Revision, before: Revision) -> Revision:
    """The revision, which shares the engine of the one before it if only its limits are others."""
    is_same = (
        not before.failure
        and before.workdir_sha256 == revision.workdir_sha256
        and _engine_spec(before.spec) == _engine_spec(revision.spec)
    )
    if not is_same:
        return revision
    return replace(revision, same_engine_as=before.engine, ready_s=before.ready_s)


def _engine_spec(spec: JobSpec) -> JobSpec:
    """What of a job file a replica that runs has: not how many there are, nor for how long.

    Nor who hears of it: those that run keep their list.
    """
    spec = replace(spec, notify=None)
    if spec.serve is None:
        return spec
    serve = replace(spec.serve, replicas=ReplicaRange(), drain_s=0.0, start_s=0.0)
    return replace(spec, serve=serve, workdir=None)


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
    """More replicas of the wanted revision than are wanted: some go.

    First those that are not READY, then those of the kind of which there are enough, the newest
    first. One more may stay while it is the other kind's turn to get READY.
    """
    wanted, floor = record.wanted_replicas, _floor(record)
    while len(current := _current(record)) > wanted + _is_exchanging(current, floor):
        is_over_floor = _on_demand_count(current) > floor

        def order(replica: Replica, is_over_floor: bool = is_over_floor) -> tuple[bool, bool, int]:  # noqa: FBT001
            return (not _is_ready(replica), replica.on_demand == is_over_floor, replica.number)

        record = drain(record, max(current, key=order), f"{_count_text(wanted)}", now_s)
    return record


def _is_exchanging(current: list[Replica], floor: int) -> bool:
    """Whether a replica is awaited so that one of the other kind, spot or on-demand, may go."""
    ready = [each for each in current if _is_ready(each)]
    is_wrong = _on_demand_count(current) > floor or _on_demand_count(ready) < floor
    return is_wrong and len(ready) < len(current)


def _on_demand_count(replicas: list[Replica]) -> int:
    return sum(each.on_demand for each in replicas)


def _count_text(wanted: int) -> str:
    return "1 replica is enough" if wanted == 1 else f"{wanted} replicas are enough"


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
        if each.state == ReplicaState.DRAINING and not _is_current(record, each)
    ]
    if not old and missing == 0 and all(map(_is_ready, current)):
        missing = int(_on_demand_count(current) != _floor(record))  # the other kind takes a place
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
    on_demand = _on_demand_count(_current(record)) < _floor(record)
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
