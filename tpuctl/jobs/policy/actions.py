"""What is to be done for a job, as data: follows from its record and the world alone."""

from collections.abc import Iterator
from dataclasses import dataclass

from tpuctl.jobs.policy.observation import ABSENT, JobObservation
from tpuctl.jobs.policy.search import led_by, open_requests
from tpuctl.jobs.policy.zones import key_of
from tpuctl.models.job import Attempt, AttemptOutcome, AttemptState, JobRecord, Phase
from tpuctl.models.queued_resource import QueuedResourceState


@dataclass(frozen=True, slots=True)
class RequestSlice:
    """Create the queued resource that leads the attempt."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class DeleteSlice:
    """Delete a queued resource of the job's own, and its node with it."""

    zone: str
    queued_resource: str


@dataclass(frozen=True, slots=True)
class ConnectWorkers:
    """Connect to every worker; while its attempt prepares, install the agent."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class StartWorkers:
    """Let every prepared worker begin."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class StopWorkers:
    """Stop every worker that still runs."""

    attempt: Attempt
    dump: bool = False
    """Every process's stack is kept before."""


@dataclass(frozen=True, slots=True)
class RecordStockout:
    """Tell other jobs that a zone has no slice of a type, or that it has one."""

    queued_resource: str
    """The request that found it so."""
    zone: str
    accelerator_type: str
    out_s: float | None
    """When it was found so; None: the zone has granted one."""


Action = RequestSlice | DeleteSlice | ConnectWorkers | StartWorkers | StopWorkers | RecordStockout


def required_actions(record: JobRecord, seen: JobObservation) -> list[Action]:
    """Everything that has to be done for the job now, in order."""
    found: list[Action] = [
        DeleteSlice(zone_of(record, name), name)
        for name in record.unwanted
        if seen.requests.get(name) not in (ABSENT, QueuedResourceState.DELETING)
    ]
    found += _stockout_actions(record, seen)
    attempt = record.attempt
    if record.is_ended or attempt is None or attempt.state == AttemptState.ENDED:
        return found
    if attempt.state == AttemptState.WAITING:
        return [*found, *_request_actions(attempt, seen)]
    return [*found, *_worker_actions(attempt)]


def _request_actions(attempt: Attempt, seen: JobObservation) -> Iterator[Action]:
    for request in () if seen.blocked_by else open_requests(attempt):
        # Known of only when the one who asks now has looked: a create's reply may have been lost.
        if seen.requests.get(request.name) == ABSENT and request.accepted_s is None:
            yield RequestSlice(led_by(attempt, request.name))


def _worker_actions(attempt: Attempt) -> Iterator[Action]:
    yield ConnectWorkers(attempt)
    if attempt.state == AttemptState.RUNNING and any(
        report.phase == Phase.PREPARED for report in attempt.workers
    ):
        yield StartWorkers(attempt)
    if attempt.state == AttemptState.STOPPING:
        yield StopWorkers(attempt, dump=attempt.outcome == AttemptOutcome.HUNG)


def _stockout_actions(record: JobRecord, seen: JobObservation) -> Iterator[Action]:
    for attempt in record.attempts[-2:]:
        name, (zone, kind) = attempt.queued_resource or "", key_of(record, attempt)
        if attempt.outcome == AttemptOutcome.STOCKOUT:
            yield RecordStockout(name, zone, kind, attempt.ended_s)
        newest = {other.key: other for other in attempt.others if other.is_stockout}
        for other in newest.values():
            yield RecordStockout(other.name, *other.key, other.withdrawn_s)
        known = (seen.zone_health or {}).get((zone, kind))
        was_out = known is not None and known.stockout_score > 0
        if attempt.state == AttemptState.PREPARING and attempt.owned and was_out:
            yield RecordStockout(name, zone, kind, None)


def zone_of(record: JobRecord, name: str) -> str:
    """The zone of a queued resource of the job's own."""
    zones = {other.name: other.zone for each in record.attempts for other in each.others}
    zones |= {each.queued_resource: each.zone for each in record.attempts if each.queued_resource}
    return zones[name]
