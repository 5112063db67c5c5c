"""How an attempt ended, and whether another one follows: rules about one record, no world."""

from dataclasses import dataclass

from tpuctl.errors import CapacityError
from tpuctl.jobs.observed import ABSENT, WITHDRAWN, Refusal
from tpuctl.models.job import (
    Attempt,
    AttemptState,
    JobRecord,
    Outcome,
    Phase,
    WorkerReport,
    counted,
)
from tpuctl.models.node import LOST_STATES, NodeState
from tpuctl.models.operation import unnamed
from tpuctl.models.queued_resource import QueuedResourceState

UNREACHABLE_S = 60.0
"""A worker that once answered may be silent for this long while its node is READY."""
CLOSING_S = 40.0
"""Grace, last upload and a little: an agent that takes longer to end is not waited for."""
LOST_IN_A_ROW = 3
SUSPENDED_REQUESTS = frozenset({QueuedResourceState.SUSPENDING, QueuedResourceState.SUSPENDED})
DELETED_REQUESTS = frozenset({ABSENT, WITHDRAWN, QueuedResourceState.DELETING})
DELETED_NODES = frozenset({ABSENT, NodeState.DELETING})
REQUEST_FAILED = Refusal("the queued resource FAILED", CapacityError.reason)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome and its reason.

    With `notice`, the slice is still there for a moment; a `final` one ends the job.
    """

    outcome: Outcome
    reason: str
    notice: bool = False
    refusal: str = ""
    final: bool = False


def of_waiting(
    record: JobRecord, attempt: Attempt, request: str | None, now_s: float, refusal: Refusal | None
) -> Verdict | None:
    """The end of an attempt that has no slice yet."""
    if record.cancel_requested_s is not None:
        return Verdict(Outcome.CANCELLED, "cancelled while waiting for a slice")
    if refusal is None and request == QueuedResourceState.FAILED:
        refusal = REQUEST_FAILED
    if refusal is not None:
        return Verdict(Outcome.REFUSED, refusal.text, refusal=refusal.kind)
    if attempt.accepted_s is not None and (found := of_request(attempt, request)):
        return found
    limit_s = record.spec.timeouts.queue_s
    if limit_s is not None and now_s - (attempt.requested_s or now_s) > limit_s:
        return Verdict(Outcome.TIMEOUT, f"no {record.accelerator_type} within {limit_s:.0f} s")
    return None


def of_request(attempt: Attempt, request: str | None) -> Verdict | None:
    """What the state of a slice's queued resource means for it."""
    if request in SUSPENDED_REQUESTS:
        return Verdict(Outcome.PREEMPTED, f"queued resource {attempt.queued_resource} is {request}")
    if attempt.owned and request in DELETED_REQUESTS:
        return Verdict(Outcome.PREEMPTED, "its slice was deleted by somebody", final=True)
    return None


def of_slice(attempt: Attempt, node: str | None, request: str | None) -> Verdict | None:
    """The slice itself was taken away: by the service, or by somebody who wants it gone."""
    if node in LOST_STATES:
        return Verdict(Outcome.PREEMPTED, f"node {attempt.node} is {node}")
    if found := of_request(attempt, request):
        return found
    if attempt.queued_resource and request is None:
        return None  # it could not be asked: who took the node is not known yet
    if not attempt.owned and node in DELETED_NODES:
        return Verdict(Outcome.PREEMPTED, f"node {attempt.node} is gone", final=True)
    if node == ABSENT:
        return Verdict(Outcome.PREEMPTED, f"node {attempt.node} is {node}")
    return None


def of_working(record: JobRecord, attempt: Attempt, now_s: float) -> Verdict | None:
    """The end of an attempt whose slice is there, or the reason to stop it."""
    if record.cancel_requested_s is not None:
        return Verdict(Outcome.CANCELLED, "cancelled")
    for report in attempt.workers:
        if found := of_worker(report):
            return found
    done = [report for report in attempt.workers if report.closed and succeeded(report)]
    if len(done) == attempt.worker_count > 0:
        every = "its worker" if len(done) == 1 else f"all {counted(len(done))}"
        return Verdict(Outcome.SUCCEEDED, f"{every} ended well")
    return _overdue(record, attempt, now_s)


def of_worker(report: WorkerReport) -> Verdict | None:
    """What one worker's report alone means for the gang."""
    who = f"worker {report.worker_id}"
    if report.preempted:
        return Verdict(Outcome.PREEMPTED, f"{who} was told that it is preempted", notice=True)
    if lost := _loss(report):
        return Verdict(Outcome.LOST, f"{who} {lost}")
    if report.phase != Phase.ENDED or succeeded(report):
        return None
    return Verdict(Outcome.FAILED, f"{who}: {_how(report)}")


def succeeded(report: WorkerReport) -> bool:
    """The program ended by itself with status 0."""
    return (
        report.phase == Phase.ENDED
        and report.stage == "run"
        and report.exit_status == 0
        and not report.terminated
    )


def is_open(attempt: Attempt, now_s: float) -> bool:
    """A worker of a stopping attempt may still say how it ended."""
    if attempt.stopping_s is not None and now_s - attempt.stopping_s > UNREACHABLE_S + CLOSING_S:
        return False
    return any(not _is_accounted_for(report) for report in attempt.workers)


def refined(attempt: Attempt, found: Verdict) -> Verdict:
    """The verdict with what the other workers said while the gang stopped.

    A worker that vanishes makes its peers fail: a preemption or a loss explains a failure.
    """
    if found.outcome != Outcome.FAILED:
        return found
    others = [other for report in attempt.workers if (other := of_worker(report))]
    weight = {Outcome.PREEMPTED: 2, Outcome.LOST: 1}
    return max([found, *others], key=lambda each: weight.get(each.outcome, 0))


def may_restart(record: JobRecord) -> bool:
    """Another attempt follows the one that has just ended."""
    last, restart = record.attempts[-1], record.spec.restart
    if last.outcome == Outcome.PREEMPTED:
        return restart.preemption
    if last.outcome == Outcome.LOST:
        return not _keeps_losing(record.attempts[-LOST_IN_A_ROW:])
    if last.outcome != Outcome.FAILED:
        return False
    failures = [each for each in record.attempts if each.outcome == Outcome.FAILED]
    counted = [each for each in failures if not _is_listed(each, restart.exit_codes)]
    return _is_listed(last, restart.exit_codes) or len(counted) <= restart.failure


def _keeps_losing(newest: tuple[Attempt, ...]) -> bool:
    """The same slice lost its workers again and again: it is not going to work."""
    losses = [each.node for each in newest if each.outcome == Outcome.LOST]
    return len(losses) == LOST_IN_A_ROW and len(set(losses)) == 1


def _is_listed(attempt: Attempt, exit_codes: tuple[int, ...]) -> bool:
    return any(
        report.exit_status in exit_codes for report in attempt.workers if report.stage == "run"
    )


def _is_accounted_for(report: WorkerReport) -> bool:
    return report.closed or report.phase == Phase.LOST or report.unreachable_s > UNREACHABLE_S


def _overdue(record: JobRecord, attempt: Attempt, now_s: float) -> Verdict | None:
    timeouts = record.spec.timeouts
    if attempt.state == AttemptState.PREPARING:
        if now_s - (attempt.ready_s or now_s) <= timeouts.setup_s:
            return None
        unheard = [each for each in attempt.workers if each.phase == Phase.CONNECTING]
        if unheard:
            number, message = unheard[0].worker_id, unheard[0].message
            why = f": {unnamed(number, message)}" if message else ""
            return Verdict(Outcome.LOST, f"worker {number} was never reached{why}")
        return Verdict(Outcome.TIMEOUT, f"not prepared within {timeouts.setup_s:.0f} s")
    first_s = next((each.started_s for each in record.attempts if each.started_s), now_s)
    if timeouts.run_s is not None and now_s - first_s > timeouts.run_s:
        return Verdict(
            Outcome.TIMEOUT, f"not done within {timeouts.run_s:.0f} s of its first start"
        )
    return None


def _loss(report: WorkerReport) -> str | None:
    """What happened to the worker, rather than to the program."""
    if report.phase == Phase.LOST:
        return report.message or "lost its agent"
    if report.unreachable_s > UNREACHABLE_S:
        return f"has not answered for {UNREACHABLE_S:.0f} s"
    if report.phase == Phase.ENDED and report.terminated:
        return "was shut down"
    failed_fetch = report.stage == "fetch" and report.exit_status != 0 and not report.stopped
    return "could not fetch the workdir" if failed_fetch else None


def _how(report: WorkerReport) -> str:
    what = "the program" if report.stage == "run" else f"{report.stage}"
    if report.signal is not None:
        return f"{what} was killed by signal {report.signal}"
    return f"{what} ended with status {report.exit_status}"
