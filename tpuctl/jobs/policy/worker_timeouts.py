"""When a worker that cannot be heard counts as lost, rather than its network as slow."""

from tpuctl.jobs.policy.observation import JobObservation
from tpuctl.models.job import Attempt, AttemptOutcome, AttemptState, Phase, WorkerReport
from tpuctl.models.node import NodeState

SILENCE_LIMIT_S = 60.0
"""A worker may be silent for this long while nothing is known of its peers."""
SILENCE_LIMIT_AMONG_PEERS_S = 15.0
"""The same while others answer: then it is not our network."""
UNREACHED_LIMIT_S = 180.0
"""One that was never reached, after every other one is prepared: a slow boot takes half of it."""


def excess_silence_s(report: WorkerReport, attempt: Attempt, seen: JobObservation) -> float | None:
    """For how many seconds a worker has been silent; None while that is not too long."""
    limit_s = SILENCE_LIMIT_AMONG_PEERS_S if _is_stopped_for_loss(attempt) else SILENCE_LIMIT_S
    is_up = seen.node == NodeState.READY and seen.node_checked_s > seen.now_s - report.unreachable_s
    if is_up and any(_answers(peer) for peer in attempt.workers if peer is not report):
        limit_s = SILENCE_LIMIT_AMONG_PEERS_S
    return report.unreachable_s if report.unreachable_s > limit_s else None


def unreached_worker(attempt: Attempt, now_s: float) -> WorkerReport | None:
    """The first worker that was never reached while all others waited for it, for too long."""
    if attempt.awaited_s is None or now_s - attempt.awaited_s <= UNREACHED_LIMIT_S:
        return None
    return next((late for late in attempt.workers if late.phase == Phase.CONNECTING), None)


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
