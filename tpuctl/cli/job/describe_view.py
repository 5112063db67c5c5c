"""`tpuctl job describe` for people: what is wrong comes first, and what to type is on it."""

from collections.abc import Callable, Iterator

from tpuctl.cli.explain import line_of
from tpuctl.cli.job.details import deadman_proof, first_failure, last_step, newest_gang
from tpuctl.cli.shell.detail_view import DetailBlock, DetailView
from tpuctl.cli.shell.tables.values import PointInTime, Usd
from tpuctl.metrics.findings.state_rules import PLAIN_FAILURE
from tpuctl.models.duration import age
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord, ProofResult, WorkerReport
from tpuctl.models.search import Candidate
from tpuctl.operations.jobs.queries import (
    JobDetails,
    current_status,
    place_text,
    places_of,
    worker_text,
)
from tpuctl.operations.jobs.supervision import supervisor_command
from tpuctl.operations.metrics.explain import Explanation
from tpuctl.operations.slices import spending

EVENTS_SHOWN = 12
OTHERS_SHOWN = 12
LOSSES_SHOWN = 3


def job_view(
    found: JobDetails, wrong: Explanation, typed: Callable[[str], str] = str
) -> DetailView:
    """The detail view of a job for people; `typed` adds --context to commands."""
    job = found.job
    attempts = DetailBlock("attempts", [_attempt(found, attempt) for attempt in job.attempts])
    return DetailView(
        heading=job.job_id,
        state=job.state,
        fields=[(label, text) for label, text in _fields(found) if text],
        blocks=[
            *_trouble(job),
            _findings(found, wrong, typed),
            attempts,
            _others(job),
            _workers(job),
            _notifications(job),
            _events(found),
        ],
    )


def _fields(found: JobDetails) -> Iterator[tuple[str, str]]:
    job = found.job
    yield "why", current_status(job, found.now_s)
    yield "supervisor", _supervisor(found)
    yield "service", _service(job)
    yield "submitted", f"{_ago(found, job.submitted_s)} by {job.owner}"
    yield "ended", _ago(found, job.ended_s) if job.ended_s else ""
    yield "slice", _slice(job)
    yield "zones", _places(job)
    yield "step", _step(job)
    yield "cost", _cost(found)
    yield from _goodput(found)
    yield "budget", _budget(found)
    yield "switch", _switch(job)
    yield "secrets", ", ".join(sorted(job.spec.secrets))
    yield "notify", ", ".join(target.label for target in job.spec.notify or ())
    yield "logs", f"tpuctl job logs {job.job_id}"
    yield "", found.logs
    if found.stacks:
        yield "stacks", f"tpuctl job bundle {job.job_id}"
        yield "", found.stacks[0].rpartition("/a")[0] + "/"


def _supervisor(found: JobDetails) -> str:
    if found.supervisor is not None:
        since = found.supervisor.since_s
        running = f", since {PointInTime(since)}" if since is not None else ""
        return f"{found.supervisor.host or found.supervisor.holder}{running}"
    return "" if found.job.is_settled else f"nobody: run: {supervisor_command({found.job.owner})}"


def _service(job: JobRecord) -> str:
    replica = job.replica
    if replica is None:
        return ""
    return f"replica {replica.number} of {replica.service}, revision {replica.revision}"


def _slice(job: JobRecord) -> str:
    wanted = job.attempt.slices if job.attempt else job.spec.resources.num_slices
    several = f"{wanted} x " if wanted > 1 else ""
    return f"{several}{job.accelerator_type} {spending.provisioning(job)} in {job.zone}"


def _places(job: JobRecord) -> str:
    """Every slice that may be asked for: `v6e-16 in us-east5-b, then v6e-16 in us-east1-d`."""
    places = [place_text(job, place) for place in places_of(job)]
    if len(places) < 2 or job.node is not None:
        return ""
    if job.spec.search.at_once == 1:
        return ", then ".join(places)
    return f"{', '.join(places)}; up to {job.spec.search.at_once} at once"


def _others(job: JobRecord) -> DetailBlock:
    """The requests of the newest attempt that do not lead, and what they cost."""
    attempt = job.attempt
    others = attempt.others if attempt else ()
    title = f"other requests of attempt {attempt.number}" if attempt else ""
    return DetailBlock(title, [_other(other) for other in others[-OTHERS_SHOWN:]])


def _other(other: Candidate) -> tuple[str, ...]:
    if other.is_open:
        return other.name, other.zone, other.accelerator_type, "-", "open"
    billed = "still billed" if other.billed_s is None else f"{other.billed_s:.0f} s billed"
    left = "withdrawn" if other.deleted_s is not None else "being withdrawn"
    return other.name, other.zone, other.accelerator_type, billed, f"{left}: {other.reason}"


def _step(job: JobRecord) -> str:
    newest, last = job.attempt, last_step(job)
    if newest is None or not last:
        return ""
    resumed = newest.resume_step
    return f"{last} (attempt {newest.number} went on from {resumed})" if resumed else str(last)


def _goodput(found: JobDetails) -> Iterator[tuple[str, str]]:
    """The part of the time that made progress, and the three largest losses, a line each."""
    goodput = found.goodput
    if goodput.share is None:
        return
    yield "goodput", f"{100 * goodput.share:.0f} % of {age(goodput.wall_s)}"
    for part, seconds, usd in goodput.losses[:LOSSES_SHOWN]:
        yield "", f"{part} {age(seconds)}" + (f", {Usd(usd)} USD" if usd else "")


def _cost(found: JobDetails) -> str:
    job, spent = found.job, found.spent
    hourly = spending.usd_per_hour(job)
    now = f", {Usd(hourly)} USD/h now" if hourly is not None and spending.has_slice(job) else ""
    hours = f"{spent.slice_hours:.3g} slice hours"
    if spent.usd is None:
        return f"{hours}, no list price known"
    listed = f" (prices of {spent.as_of})" if spent.as_of else ""
    return f"{Usd(spent.usd)} USD for {hours}{now}{listed}"


def _budget(found: JobDetails) -> str:
    """`1.50 of 6 hours left, 4.20 of 30 USD left`."""
    known = found.budget
    parts = []
    for what, unit in (("hours", "hours"), ("usd", "USD")):
        given, left = known[what], known[f"{what}_left"]
        if given is not None:
            amount = "?" if left is None else f"{left:.2f}"
            parts.append(f"{amount} of {given:g} {unit} left")
    return ", ".join(parts)


def _switch(job: JobRecord) -> str:
    """Whether the slice can delete itself, and what that means."""
    proof = deadman_proof(job) if spending.has_slice(job) else None
    if proof is None:
        return ""
    if proof.result == ProofResult.ARMED:
        return "armed: the slice deletes itself when nobody looks after it any more"
    return f"not armed: {proof.text}"


def _trouble(job: JobRecord) -> list[DetailBlock]:
    """A block for the first worker that failed or went silent, with its last lines."""
    found = first_failure(job)
    if found is None:
        return []
    attempt, bad = found
    lines = bad.last_lines or ("(nothing that it printed is known)",)
    return [DetailBlock(_title(job, attempt, bad), [(line,) for line in lines])]


def _findings(found: JobDetails, wrong: Explanation, typed: Callable[[str], str]) -> DetailBlock:
    """A block with what is wrong, but for the failure that the view begins with."""
    lines = [(typed(line_of(each)),) for each in wrong.findings if each.name != PLAIN_FAILURE]
    until = ""
    if wrong.measured_s is not None and not found.job.is_ended:
        until = f", by samples until {age(found.now_s - wrong.measured_s)} ago"
    return DetailBlock(f"what is wrong{until}", lines)


def _title(job: JobRecord, attempt: Attempt, bad: WorkerReport) -> str:
    """What went wrong; the exit code of a run that hung is left out, because tpuctl killed it."""
    if attempt.outcome == AttemptOutcome.HUNG:
        return (
            f"attempt {attempt.number} hung, worker {bad.worker_id} was the first to fall silent; "
            f"every stack: tpuctl job bundle {job.job_id}"
        )
    title = f"worker {bad.worker_id}, the first to go wrong in attempt {attempt.number}"
    return f"{title}: {worker_text(bad)}"


def _attempt(found: JobDetails, attempt: Attempt) -> tuple[str, ...]:
    began_s = attempt.started_s or attempt.ready_s or attempt.requested_s
    end_s = attempt.ended_s if attempt.ended_s is not None else found.now_s
    took = age(end_s - began_s) if began_s is not None else "-"
    reached = max(attempt.resume_step, attempt.last_step)
    steps = f"step {attempt.resume_step}-{reached}" if reached else "-"
    ids = f" (id {', '.join(map(str, attempt.node_ids))})" if attempt.node_ids else ""
    reason = f": {attempt.reason}" if attempt.reason else ""
    outcome = str(attempt.outcome or attempt.state)
    return str(attempt.number), outcome, took, steps, f"{attempt.node}{ids}{reason}"


def _workers(job: JobRecord) -> DetailBlock:
    attempt = newest_gang(job)
    if attempt is None:
        return DetailBlock("workers", [])
    title = f"workers of attempt {attempt.number}"
    return DetailBlock(title, [_worker(attempt, each) for each in attempt.workers])


def _worker(attempt: Attempt, report: WorkerReport) -> tuple[str, str]:
    first = "  <- the first" if report.worker_id == attempt.first_worker else ""
    reached = f", step {report.step}" if report.step is not None else ""
    is_killed = attempt.outcome == AttemptOutcome.HUNG and report.stopped
    how = "stopped as it hung" if is_killed else worker_text(report)
    return str(report.worker_id), f"{how}{reached}{first}"


def _events(found: JobDetails) -> DetailBlock:
    events = found.job.events
    hidden = len(events) - EVENTS_SHOWN
    title = f"events (and {hidden} earlier: -o json)" if hidden > 0 else "events"
    shown = events[-EVENTS_SHOWN:]
    return DetailBlock(title, [(str(PointInTime(event.time_s)), event.text) for event in shown])


def _notifications(job: JobRecord) -> DetailBlock:
    """The newest messages about the job, and what became of each at each target."""
    rows = [
        (
            str(PointInTime(each.time_s)),
            str(each.event),
            job.target_label(sending.target),
            f"{sending.state}: {sending.error}" if sending.error else str(sending.state),
        )
        for each in job.notifications
        for sending in each.sendings
    ]
    return DetailBlock("messages", rows[-EVENTS_SHOWN:])


def _ago(found: JobDetails, time_s: float) -> str:
    return f"{age(found.now_s - time_s)} ago ({PointInTime(time_s)})"
