"""How an attempt ended: rules about one record and what was seen."""

from collections.abc import Iterator
from dataclasses import replace

from tpuctl.errors import CapacityError
from tpuctl.jobs.policy import budget, slice_end, worker_timeouts
from tpuctl.jobs.policy.observation import JobObservation, SliceRefusal
from tpuctl.jobs.policy.slice_end import AttemptEnd
from tpuctl.jobs.record.status_text import format_duration
from tpuctl.jobs.workers import protocol
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    JobRecord,
    Phase,
    WorkerReport,
    workers_text,
)
from tpuctl.models.network_cause import cause_of
from tpuctl.models.node import LOST_STATES
from tpuctl.models.operation import without_worker_name
from tpuctl.models.queued_resource import QueuedResourceState

CLOSING_S = 40.0
"""Grace, last upload and a little: an agent that takes longer to end is not waited for."""
REQUEST_FAILED = SliceRefusal("the queued resource FAILED", CapacityError.reason)
STAGES = {"run": "the program", "mounts": "file_mounts", "image": "pulling the image"}
"""What people call a stage; the others are called as they are."""
NEEDED = {"mounts": "file_mounts", "secrets": "secrets"}
"""What an outage may keep from a worker; a refusal is the job's own failure."""
WEIGHT = {AttemptOutcome.PREEMPTED: 2, AttemptOutcome.LOST: 1}
"""A worker that vanishes makes its peers fail: what explains the others counts."""
EXPLAINABLE = frozenset({AttemptOutcome.FAILED, AttemptOutcome.LOST, AttemptOutcome.HUNG})


def end_of_waiting(record: JobRecord, attempt: Attempt, seen: JobObservation) -> AttemptEnd | None:
    """How an attempt without a slice ends; None while it goes on."""
    if record.cancel_requested_s is not None:
        return AttemptEnd(AttemptOutcome.CANCELLED, "cancelled while waiting for a slice")
    if found := end_of_request(attempt, seen):
        return found
    if is_overdue(record, seen.now_s):
        return AttemptEnd(AttemptOutcome.TIMEOUT, no_slice_text(record))
    return None


def end_of_request(attempt: Attempt, seen: JobObservation) -> AttemptEnd | None:
    """How the request that leads an attempt ends without a slice; None while it may get one."""
    request = seen.requests.get(attempt.queued_resource or "")
    refusal = _refusal(attempt, seen)
    if refusal is None and request == QueuedResourceState.FAILED:
        refusal = REQUEST_FAILED
    if refusal is not None:
        return AttemptEnd(_refusal_outcome(refusal), refusal.text, refusal=refusal.kind)
    return _slice_loss(attempt, seen.node, request)


def _refusal_outcome(refusal: SliceRefusal) -> AttemptOutcome:
    """How an attempt ends by a refusal: addresses are not chips, and others give them back."""
    cause = cause_of(refusal.kind)
    if cause is not None and cause.may_pass:
        return AttemptOutcome.BLOCKED
    return AttemptOutcome.STOCKOUT if refusal.is_shortage else AttemptOutcome.REFUSED


def _slice_loss(attempt: Attempt, node: str | None, request: str | None) -> AttemptEnd | None:
    """A slice may be lost before it was ever seen READY."""
    if request == QueuedResourceState.ACTIVE and node in LOST_STATES:
        return slice_end.end_by_slice(attempt, node, request)
    return None if attempt.accepted_s is None else slice_end.end_by_request(attempt, request)


def is_overdue(record: JobRecord, now_s: float) -> bool:
    """Whether the job has wanted a slice for longer than `timeouts.queue`."""
    limit_s, since_s = record.spec.timeouts.queue_s, record.wanted_since_s
    return limit_s is not None and since_s is not None and now_s - since_s > limit_s


def no_slice_text(record: JobRecord) -> str:
    """The reason of a job that has waited for a slice for too long."""
    types = " or ".join(record.spec.resources.types) or record.accelerator_type
    return f"no {types} within {record.spec.timeouts.queue_s or 0:.0f} s"


def end_of_working(record: JobRecord, attempt: Attempt, seen: JobObservation) -> AttemptEnd | None:
    """How an attempt with a slice ends, or why it is stopped; None while it goes on."""
    if record.cancel_requested_s is not None:
        return AttemptEnd(AttemptOutcome.CANCELLED, "cancelled")
    if found := end_by_workers(attempt, seen):
        return found
    if well := _success(attempt, attempt.workers):
        return well
    if attempt.state == AttemptState.RUNNING and not _is_heard(seen):
        return None  # it may have ended well long ago, while nobody looked after it
    ttl = budget.ttl_reason(record, seen.created_s, seen.now_s)
    if why := budget.stop_reason(record, seen.now_s) or ttl:
        return AttemptEnd(AttemptOutcome.TIMEOUT, why)
    return _hang(record, attempt) or _timeout(record, attempt, seen)


def _is_heard(seen: JobObservation) -> bool:
    """Every worker has said something to whoever looks after the job now."""
    unheard = (Phase.CONNECTING, Phase.LOST)
    return bool(seen.workers) and all(report.phase not in unheard for report in seen.workers)


def end_by_workers(attempt: Attempt, seen: JobObservation) -> AttemptEnd | None:
    """The end that follows from the reports of all workers: of those that count, the first."""
    ends = list(_ends(attempt, seen))
    if not ends:
        return None
    heaviest = max(_weight(end) for _, end in ends)
    first = min(moment for moment, end in ends if _weight(end) == heaviest)
    return next(end for moment, end in ends if moment == first and _weight(end) == heaviest)


def end_by_final_reports(
    attempt: Attempt, found: AttemptEnd, finals: tuple[WorkerReport, ...]
) -> AttemptEnd:
    """The end of an attempt whose slice is gone, by the reports that its workers left."""
    told = {report.worker_id: replace(report, closed=True) for report in finals}
    reports = tuple(
        report if report.closed else told.get(report.worker_id, report)
        for report in (attempt.workers or tuple(told.values()))
    )
    if well := _success(attempt, reports):
        return replace(well, is_gone=found.is_gone)
    if found.final and len(told) == attempt.worker_count > 0:
        judged = end_by_workers(replace(attempt, workers=reports), JobObservation(0.0))
        if judged is not None:  # it was not needed any more when it was deleted
            return replace(judged, is_gone=True, final=not attempt.owned)
    return found


def end_by_worker(report: WorkerReport, silent_s: float | None = None) -> AttemptEnd | None:
    """The end that follows from one worker's report alone; None while it runs or succeeded."""
    first = report.worker_id
    who = f"worker {first}"
    if report.preempted:
        reason = f"{who} got notice of its preemption"
        return AttemptEnd(AttemptOutcome.PREEMPTED, reason, first_worker=first)
    if lost := _loss(report, silent_s):
        return AttemptEnd(AttemptOutcome.LOST, f"{who} {lost}", first_worker=first)
    if report.phase != Phase.ENDED or has_succeeded(report):
        return None
    return AttemptEnd(AttemptOutcome.FAILED, f"{who}: {_exit_text(report)}", first_worker=first)


def has_succeeded(report: WorkerReport) -> bool:
    """Whether a program ended by itself with status 0: one that was stopped has only saved."""
    return (
        report.phase == Phase.ENDED
        and report.stage == "run"
        and report.exit_status == 0
        and not (report.terminated or report.preempted or report.stopped)
    )


def worker_text(report: WorkerReport) -> str:
    """How one worker ended, or what it does, in words."""
    if has_succeeded(report):
        return "ended well"
    if report.preempted:
        return "got notice of its preemption"
    if lost := _loss(report, None):
        return lost
    if report.phase == Phase.ENDED:
        return f"{_exit_text(report)}{' (stopped)' if report.stopped else ''}"
    if report.unreachable_s > 0:
        return f"has not answered for {format_duration(report.unreachable_s)}"
    return str(report.phase)


def has_pending_reports(attempt: Attempt, seen: JobObservation) -> bool:
    """Whether a worker of an attempt that stops may still report how it ended."""
    most_s = worker_timeouts.SILENCE_LIMIT_S + CLOSING_S
    if attempt.stopping_s is not None and seen.now_s - attempt.stopping_s > most_s:
        return False
    return any(not _is_accounted_for(report, attempt, seen) for report in attempt.workers)


def refine_end(attempt: Attempt, found: AttemptEnd, seen: JobObservation) -> AttemptEnd:
    """The end, explained by what other workers reported while the gang stopped."""
    if found.outcome not in EXPLAINABLE:
        return found
    better = end_by_workers(attempt, seen)
    if better is None:
        return found
    is_first = found.outcome == better.outcome == AttemptOutcome.FAILED
    return better if is_first or _weight(better) > _weight(found) else found


def _weight(found: AttemptEnd) -> int:
    return WEIGHT.get(found.outcome, 0)


def _ends(attempt: Attempt, seen: JobObservation) -> Iterator[tuple[tuple[float, int], AttemptEnd]]:
    """When and how each worker ended or fell silent; those that we stopped are not the cause."""
    for report in attempt.workers:
        silent_s = worker_timeouts.excess_silence_s(report, attempt, seen)
        found = end_by_worker(report, silent_s)
        if found is None or (report.stopped and found.outcome == AttemptOutcome.FAILED):
            continue
        when_s = report.ended_s or seen.now_s - report.unreachable_s
        yield (when_s, report.worker_id), found


def _refusal(attempt: Attempt, seen: JobObservation) -> SliceRefusal | None:
    about = ("", attempt.queued_resource)
    return next((each for each in seen.refusals if each.queued_resource in about), None)


def _success(attempt: Attempt, reports: tuple[WorkerReport, ...]) -> AttemptEnd | None:
    done = [report for report in reports if report.closed and has_succeeded(report)]
    if not len(done) == attempt.worker_count > 0:
        return None
    every = "its worker" if len(done) == 1 else f"all {workers_text(len(done))}"
    return AttemptEnd(AttemptOutcome.SUCCEEDED, f"{every} ended well")


def _hang(record: JobRecord, attempt: Attempt) -> AttemptEnd | None:
    limit_s, workers = record.spec.timeouts.hang_s, attempt.workers
    if limit_s is None or attempt.state != AttemptState.RUNNING or not workers:
        return None
    running = [report for report in workers if report.phase == Phase.RUNNING]
    if not running or any(report.unreachable_s > 0 for report in workers):
        return None
    if min(report.quiet_s for report in running) <= limit_s:
        return None
    first = max(running, key=lambda report: report.quiet_s).worker_id
    reason = f"no line and no step of any worker for {format_duration(limit_s)}"
    return AttemptEnd(AttemptOutcome.HUNG, reason, first_worker=first)


def _is_accounted_for(report: WorkerReport, attempt: Attempt, seen: JobObservation) -> bool:
    if report.phase == Phase.CONNECTING and attempt.started_s is None:
        return True  # nothing of this attempt was ever begun there
    silent_s = worker_timeouts.excess_silence_s(report, attempt, seen)
    return report.closed or report.phase == Phase.LOST or silent_s is not None


def _timeout(record: JobRecord, attempt: Attempt, seen: JobObservation) -> AttemptEnd | None:
    now_s = seen.now_s
    if late := worker_timeouts.unreached_worker(record, attempt, seen):
        return _unreached_end(late)
    if attempt.state == AttemptState.PREPARING:
        return _setup_timeout(record, attempt, now_s)
    limit_s = record.spec.timeouts.run_s
    starts_s = [tried.started_s for tried in record.tries if tried.started_s is not None]
    first_s = min(starts_s, default=now_s)
    if limit_s is None or now_s - first_s <= limit_s:
        return None
    reason = f"not done within {limit_s:.0f} s of its first start"
    return AttemptEnd(AttemptOutcome.TIMEOUT, reason)


def _setup_timeout(record: JobRecord, attempt: Attempt, now_s: float) -> AttemptEnd | None:
    limit_s = record.spec.timeouts.setup_s
    if attempt.ready_s is None or now_s - attempt.ready_s <= limit_s:
        return None
    unheard = [report for report in attempt.workers if report.phase == Phase.CONNECTING]
    if unheard:
        return _unreached_end(unheard[0])
    return AttemptEnd(AttemptOutcome.TIMEOUT, f"not prepared within {limit_s:.0f} s")


def _unreached_end(report: WorkerReport) -> AttemptEnd:
    number, message = report.worker_id, report.message
    why = f": {without_worker_name(number, message)}" if message else ""
    reason = f"worker {number} was never reached{why}"
    return AttemptEnd(AttemptOutcome.LOST, reason, first_worker=number)


def _loss(report: WorkerReport, silent_s: float | None) -> str | None:
    """What happened to the worker, rather than to the program."""
    if report.phase == Phase.LOST:
        return report.message or "lost its agent"
    if silent_s is not None and not report.closed:
        return f"has not answered for {format_duration(silent_s)}"
    if report.phase == Phase.ENDED and report.terminated:
        return "was shut down"
    return None if report.stopped else _outage(report)


def _outage(report: WorkerReport) -> str | None:
    """What the worker could not have of others, though it was allowed to."""
    if report.stage == "fetch" and report.exit_status not in (0, protocol.EXCHANGED):
        return "could not fetch the workdir"
    is_unreached = report.exit_status == protocol.UNREACHED
    if report.stage == "chips" and is_unreached:
        return f"found its chips held by {report.message} (see: tpuctl node free)"
    needed = NEEDED.get(report.stage or "") if is_unreached else None
    return f"could not reach its {needed}" if needed else None


def has_other_workdir(report: WorkerReport) -> bool:
    """Whether a worker refused the workdir, because somebody wrote another one over it."""
    return report.stage == "fetch" and report.exit_status == protocol.EXCHANGED


def _exit_text(report: WorkerReport) -> str:
    what = STAGES.get(report.stage or "", report.stage)
    if has_other_workdir(report):
        return "the workdir in the bucket is not the one that was submitted"
    if report.stage == "ray" and report.exit_status and report.last_lines:
        return report.last_lines[-1].removeprefix("tpuctl: ")  # its one line is what is missing
    if report.signal is not None:
        return f"{what} was killed by signal {report.signal}"
    if report.exit_status is None:
        return f"{what} was not begun"
    return f"{what} ended with status {report.exit_status}"
