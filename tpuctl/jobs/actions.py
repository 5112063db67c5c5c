"""What is to be done for a job, as data: follows from its record and the world alone."""

from dataclasses import dataclass

from tpuctl.jobs.observed import ABSENT, Observed
from tpuctl.models.job import Attempt, AttemptState, JobRecord, Phase
from tpuctl.models.queued_resource import QueuedResourceState

GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class RequestSlice:
    """Create the attempt's queued resource."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class DeleteSlice:
    """Delete a queued resource of the job's own, and its node with it."""

    zone: str
    queued_resource: str


@dataclass(frozen=True, slots=True)
class Attach:
    """Be connected to every worker; with `install`, put the agent there and let it prepare."""

    attempt: Attempt
    install: bool


@dataclass(frozen=True, slots=True)
class Start:
    """Let every prepared worker begin."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop every worker that still runs."""

    attempt: Attempt
    grace_s: float


Action = RequestSlice | DeleteSlice | Attach | Start | Stop


def wanted(record: JobRecord, seen: Observed) -> list[Action]:
    """Everything that is to be done now, in order."""
    found: list[Action] = [
        DeleteSlice(_zone_of(record, name), name)
        for name in record.unwanted
        if seen.requests.get(name) not in (ABSENT, QueuedResourceState.DELETING)
    ]
    attempt = record.attempt
    if record.is_ended or attempt is None:
        return found
    if attempt.state == AttemptState.WAITING:
        # A dead slice holds quota: the next one is requested when it is gone.
        absent = seen.requests.get(attempt.queued_resource or "") == ABSENT
        if absent and attempt.accepted_s is None and not record.unwanted:
            found.append(RequestSlice(attempt))
        return found
    found.append(Attach(attempt, install=attempt.state == AttemptState.PREPARING))
    if attempt.state == AttemptState.RUNNING and any(
        report.phase == Phase.PREPARED for report in attempt.workers
    ):
        found.append(Start(attempt))
    if attempt.state == AttemptState.STOPPING:
        found.append(Stop(attempt, GRACE_S))
    return found


def _zone_of(record: JobRecord, name: str) -> str:
    return next(each.zone for each in record.attempts if each.queued_resource == name)
