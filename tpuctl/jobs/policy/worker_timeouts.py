"""When a worker that cannot be heard counts as lost, rather than its network as slow."""

from tpuctl.jobs.policy.observation import JobObservation
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    JobRecord,
    Phase,
    WorkerReport,
)
from tpuctl.models.node import NodeState

SILENCE_LIMIT_S = 60.0
"""A worker may be silent for this long while nothing is known of its peers."""
SILENCE_LIMIT_AMONG_PEERS_S = 15.0
"""The same while others answer: then it is not our network."""
SILENCE_LIMIT_OF_FAILED_S = 15.0
"""The same when the service says, too, that the worker does not answer."""
UNREACHED_LIMIT_S = 180.0
"""One that was never reached, after every other one is prepared: a slow boot takes half of it.

So long waits also an attempt for its first word of any worker, on a slice where another attempt
had one.
"""
UNREACHED_AGAIN_LIMIT_S = 25.0
"""One that the attempt before lost on the same slice, after every other one is prepared."""


def excess_silence_s(report: WorkerReport, attempt: Attempt, seen: JobObservation) -> float | None:
    """For how many seconds a worker has been silent; None while that is not too long."""
    limit_s = SILENCE_LIMIT_AMONG_PEERS_S if _is_stopped_for_loss(attempt) else SILENCE_LIMIT_S
    is_checked = seen.node_checked_s > seen.now_s - report.unreachable_s
    is_up = is_checked and seen.node == NodeState.READY
    if is_up and any(_answers(peer) for peer in attempt.workers if peer is not report):
        limit_s = SILENCE_LIMIT_AMONG_PEERS_S
    if is_checked and report.worker_id in seen.failed_workers:
        limit_s = SILENCE_LIMIT_OF_FAILED_S
    elif seen.excused_s is not None and seen.now_s - seen.excused_s <= SILENCE_LIMIT_S:
        return None  # it worked then; its connection may come back later than those of its peers
    return report.unreachable_s if report.unreachable_s > limit_s else None


def unreached_worker(
    record: JobRecord, attempt: Attempt, seen: JobObservation
) -> WorkerReport | None:
    """The first worker that was never reached, for too long or as the service has lost it too."""
    lost, ready_s = _lost_before(record, attempt), attempt.ready_s or seen.now_s
    silent_since_s = ready_s if _is_silent_again(record, attempt) else None
    for late in (report for report in attempt.workers if report.phase == Phase.CONNECTING):
        is_lost_again = late.worker_id == lost
        # When nobody answers it may be our own network, which has the longest limit.
        since_s, limit_s = attempt.awaited_s or silent_since_s, UNREACHED_LIMIT_S
        if late.worker_id in seen.failed_workers:
            since_s, limit_s = ready_s, 0.0 if is_lost_again else SILENCE_LIMIT_OF_FAILED_S
        elif is_lost_again and attempt.awaited_s is not None:
            limit_s = UNREACHED_AGAIN_LIMIT_S
        if since_s is not None and seen.now_s - since_s > limit_s:
            return late
    return None


def is_dead(attempt: Attempt, worker_id: int | None, seen: JobObservation) -> bool:
    """Whether a worker that fell silent is one that the service has lost, too."""
    is_lost = attempt.outcome == AttemptOutcome.LOST
    return is_lost and worker_id is not None and worker_id in seen.failed_workers


def _lost_before(record: JobRecord, attempt: Attempt) -> int | None:
    """The worker whose silence ended the attempt before, when that was on the same slice."""
    before = record.tries[-2] if len(record.tries) > 1 else None
    if before is None or (before.zone, before.node) != (attempt.zone, attempt.node):
        return None
    return before.first_worker if before.outcome == AttemptOutcome.LOST else None


def _is_silent_again(record: JobRecord, attempt: Attempt) -> bool:
    """Whether no worker is heard on a slice where an earlier attempt heard them all."""
    if any(report.phase != Phase.CONNECTING for report in attempt.workers):
        return False
    earlier = [before for before in record.tries if before.number < attempt.number]
    return any(old.node == attempt.node and old.started_s is not None for old in earlier)


def awaited_s(attempt: Attempt, now_s: float) -> float | None:
    """Since when an attempt waits for nobody but workers that were never reached."""
    reached = [report for report in attempt.workers if report.phase != Phase.CONNECTING]
    are_ready = all(report.phase != Phase.PREPARING for report in reached)
    if not reached or len(reached) == len(attempt.workers) or not are_ready:
        return None
    return attempt.awaited_s or now_s


def _is_stopped_for_loss(attempt: Attempt) -> bool:
    """Silence was the reason to stop: the peers that answered then have ended since."""
    return attempt.state == AttemptState.STOPPING and attempt.outcome == AttemptOutcome.LOST


def _answers(report: WorkerReport) -> bool:
    is_heard = report.unreachable_s == 0 and report.phase not in (Phase.CONNECTING, Phase.LOST)
    return is_heard and not report.closed
