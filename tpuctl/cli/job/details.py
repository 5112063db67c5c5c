"""What is shown of a job: the columns of a list, and everything that `describe` knows in JSON."""

from collections.abc import Sequence
from typing import Any

from tpuctl.cli.shell.detail_view import fitting_columns
from tpuctl.cli.shell.output import Columns, Moment, Output, Usd
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord, SwitchProof, WorkerReport
from tpuctl.operations.jobs.queries import JobDetails, current_status, worker_text
from tpuctl.operations.slices import spending

TABLE_COLUMNS = {
    "id": "id", "state": "state", "step": "step", "type": "accelerator_type", "zone": "zone",
    "age": "submitted", "usd/h": "usd_per_hour", "usd": "usd_so_far", "why": "why",
}  # fmt: skip
"""The columns that people see, by what they are called there."""
WIDE_ONLY = ("type", "zone", "usd")


def usd_per_hour(job: JobRecord) -> Usd | None:
    """What the job's slices cost now in USD per hour; None while none is READY."""
    return _usd(spending.usd_per_hour(job)) if spending.has_slice(job) else None


def last_step(job: JobRecord) -> int | None:
    """The last step that any attempt reported; 0 when none did, None without attempts."""
    told = (each.last_step or each.resume_step for each in reversed(job.attempts))
    return next(filter(None, told), 0) if job.attempts else None


def columns(now_s: float) -> Columns[JobRecord]:
    """The columns of a list of jobs at the time `now_s`. Keys and order are public."""
    return {
        "id": lambda job: job.job_id,
        "state": lambda job: job.state,
        "attempts": lambda job: len(job.attempts),
        "step": last_step,
        "accelerator_type": lambda job: job.accelerator_type,
        "zone": lambda job: job.zone,
        "submitted": lambda job: Moment(job.submitted_s),
        "usd_per_hour": usd_per_hour,
        "why": lambda job: current_status(job, now_s),
        "owner": lambda job: job.owner,
        "usd_so_far": lambda job: _usd(spending.spending_of(job, now_s).usd),
    }


def show_jobs(output: Output, jobs: Sequence[JobRecord], *, title: str = "") -> None:
    """Print a list of jobs: every column for programs, for people those that fit."""
    found = columns(output.now())
    if output.is_terminal and output.is_table:
        found = fitting_columns(
            {said: found[key] for said, key in TABLE_COLUMNS.items()}, WIDE_ONLY
        )
    output.items(jobs, found, title=title)


def worker_document(report: WorkerReport) -> dict[str, Any]:
    """One worker of an attempt as a JSON object. Keys are public."""
    return {
        "worker": report.worker_id,
        "verdict": worker_text(report),
        "phase": report.phase,
        "stage": report.stage,
        "exit_status": report.exit_status,
        "signal": report.signal,
        "step": report.step,
        "last_lines": list(report.last_lines),
        "traceback": report.traceback,
    }


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    """One attempt as a JSON object. Keys are public."""
    return {
        "number": attempt.number,
        "node": attempt.node,
        "outcome": attempt.outcome or attempt.state,
        "resume_step": attempt.resume_step,
        "last_step": attempt.last_step,
        "reason": attempt.reason,
        "state": attempt.state,
        "zone": attempt.zone,
        "nodes": list(attempt.nodes),
        "node_ids": [str(each) for each in attempt.node_ids],
        "queued_resource": attempt.queued_resource,
        "requested": _moment(attempt.requested_s),
        "ready": _moment(attempt.ready_s),
        "started": _moment(attempt.started_s),
        "ended": _moment(attempt.ended_s),
        "deleted": _moment(attempt.deleted_s),
        "first_worker": attempt.first_worker,
        "workers": [worker_document(each) for each in attempt.workers],
    }


def first_failure(job: JobRecord) -> tuple[Attempt, WorkerReport] | None:
    """The newest attempt in which a worker failed, and the report of the first such worker."""
    for attempt in reversed(job.attempts):
        reports = {report.worker_id: report for report in attempt.workers}
        number = attempt.first_worker
        if number in reports and attempt.outcome != AttemptOutcome.SUCCEEDED:
            return attempt, reports[number]
    return None


def newest_gang(job: JobRecord) -> Attempt | None:
    """The newest attempt whose workers are known."""
    return next((each for each in reversed(job.attempts) if each.workers), None)


def deadman_proof(job: JobRecord) -> SwitchProof | None:
    """Whether the slice can delete itself when nobody looks after the job; None: not known yet."""
    attempt = newest_gang(job)
    return next((each.switch for each in attempt.workers if each.switch), None) if attempt else None


def job_document(found: JobDetails) -> dict[str, Any]:
    """Everything known about a job as a JSON object. Keys are public."""
    job, spent, newest = found.job, found.spent, found.job.attempt
    proof = deadman_proof(job)
    bad = first_failure(job)
    return {
        **{key: get(job) for key, get in columns(found.now_s).items()},
        "ended": _moment(job.ended_s),
        "attempt_list": [attempt_document(each) for each in job.attempts],
        "name": job.spec.name,
        "command": job.spec.run,
        "supervisor": _supervisor(found),
        "cancel_requested": _moment(job.cancel_requested_s),
        "zones": list(job.zones or (job.zone,)),
        "provisioning": spending.provisioning(job),
        "slices": newest.slices if newest else job.spec.resources.num_slices,
        "first_worker": {"attempt": bad[0].number, **worker_document(bad[1])} if bad else None,
        "workers": [worker_document(each) for each in newest.workers] if newest else [],
        "switch": proof.text if proof else "",
        "slice_hours": round(spent.slice_hours, 4),
        "price_as_of": spent.as_of,
        "budget": found.budget,
        "secrets": sorted(job.spec.secrets),
        "logs": found.logs,
        "stacks": list(found.stacks),
        "events": [{"time": Moment(each.time_s), "text": each.text} for each in job.events],
    }


def _supervisor(found: JobDetails) -> dict[str, Any] | None:
    info = found.supervisor
    if info is None:
        return None
    return {
        "host": info.host,
        "pid": info.pid,
        "owner": info.owner,
        "since": _moment(info.since_s),
    }


def _moment(time_s: float | None) -> Moment | None:
    return None if time_s is None else Moment(time_s)


def _usd(amount: float | None) -> Usd | None:
    return None if amount is None else Usd(amount)
