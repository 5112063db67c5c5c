"""What is shown of a job: the columns of a list, and everything that `describe` knows in JSON."""

from collections.abc import Callable, Sequence
from typing import Any

from tpuctl.cli.explain import FINDING
from tpuctl.cli.shell.output import Output
from tpuctl.cli.shell.tables.listing import Listing
from tpuctl.cli.shell.tables.values import (
    Columns,
    PointInTime,
    Usd,
    attributes,
    moment_of,
    moments,
    usd_of,
    values_of,
)
from tpuctl.metrics.findings.observation import Finding
from tpuctl.metrics.goodput.accounting import Goodput
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord, SwitchProof, WorkerReport
from tpuctl.models.notify.notification import Notification
from tpuctl.models.notify.notify_spec import NotifyTarget
from tpuctl.models.search import Candidate
from tpuctl.operations.jobs.queries import JobDetails, current_status, worker_text
from tpuctl.operations.slices import spending


def usd_per_hour(job: JobRecord) -> Usd | None:
    """What the job's slices cost now in USD per hour; None while none is READY."""
    return usd_of(spending.usd_per_hour(job)) if spending.has_slice(job) else None


def last_step(job: JobRecord) -> int | None:
    """The last step that any attempt reported; 0 when none did, None without attempts."""
    told = (each.last_step or each.resume_step for each in reversed(job.attempts))
    return next(filter(None, told), 0) if job.attempts else None


def columns(now_s: float) -> Columns[JobRecord]:
    """The columns of a list of jobs at the time `now_s`. Keys and order are public."""
    return {
        **attributes(id="job_id", state="state"),
        "attempts": lambda job: len(job.attempts),
        "step": last_step,
        **attributes("accelerator_type", "zone"),
        **moments("submitted"),
        "usd_per_hour": usd_per_hour,
        "why": lambda job: current_status(job, now_s),
        **attributes("owner"),
        "usd_so_far": lambda job: usd_of(spending.spending_of(job, now_s).usd),
    }


def known_name(job: JobRecord) -> tuple[str, str, int]:
    """What completion offers: the id, the name and the state, and how many workers it has."""
    workers = job.attempt.worker_count if job.attempt else 0
    return job.job_id, f"{job.spec.name} {job.state}", workers


def show_jobs(output: Output, jobs: Sequence[JobRecord], *, title: str = "") -> None:
    """Print a list of jobs: every column for programs, for people those that fit."""
    output.items(jobs, _listing(output.now()), title=title)


def _reached_step(job: JobRecord) -> int | None:
    """The last step for people, None where none was reported yet."""
    return last_step(job) or None


def _listing(now_s: float) -> Listing[JobRecord]:
    table: dict[str, str | Callable[[JobRecord], Any]] = {
        "id": "id", "state": "state", "step": _reached_step, "type": "accelerator_type",
        "zone": "zone", "age": "submitted", "usd/h": "usd_per_hour", "usd": "usd_so_far",
        "why": "why",
    }  # fmt: skip
    return Listing(columns(now_s), table, least=("type", "zone", "usd", "why", "age"))


WORKER: Columns[WorkerReport] = {
    **attributes(worker="worker_id"),
    "verdict": worker_text,
    **attributes("phase", "stage", "exit_status", "signal", "step", "last_lines", "traceback"),
}
"""One worker of an attempt as a JSON object. Keys are public."""


REQUEST: Columns[Candidate] = {
    **attributes(queued_resource="name"),
    **attributes("zone", "accelerator_type", "reason", "billed_s"),
    "outcome": lambda other: "open" if other.is_open else "withdrawn",
    **moments("requested", "active", "withdrawn", "deleted"),
}
"""A request that does not lead its attempt, as a JSON object. Keys are public."""
ATTEMPT: Columns[Attempt] = {
    **attributes("number", "node"),
    "outcome": lambda attempt: attempt.outcome or attempt.state,
    **attributes("resume_step", "last_step", "reason", "state", "zone", "nodes"),
    "node_ids": lambda attempt: [str(node_id) for node_id in attempt.node_ids],
    **attributes("queued_resource", "accelerator_type"),
    "other_requests": lambda attempt: [values_of(other, REQUEST) for other in attempt.others],
    **moments("requested", "ready", "started", "ended", "deleted"),
    **attributes("first_worker"),
    "workers": lambda attempt: [values_of(report, WORKER) for report in attempt.workers],
}
"""One attempt as a JSON object. Keys are public."""
SUPERVISOR = {**attributes("host", "pid", "owner"), **moments("since")}
"""The supervisor of a job as a JSON object. Keys are public."""


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


def job_document(found: JobDetails, wrong: Sequence[Finding]) -> dict[str, Any]:
    """Everything known about a job, and what is wrong with it, as JSON. Keys are public."""
    job, spent, newest = found.job, found.spent, found.job.attempt
    proof = deadman_proof(job)
    bad = first_failure(job)
    return {
        **values_of(job, columns(found.now_s)),
        "ended": moment_of(job.ended_s),
        "attempt_list": [values_of(attempt, ATTEMPT) for attempt in job.attempts],
        "name": job.spec.name,
        "command": job.spec.run,
        "supervisor": found.supervisor and values_of(found.supervisor, SUPERVISOR),
        "cancel_requested": moment_of(job.cancel_requested_s),
        "zones": job.zones or (job.zone,),
        "provisioning": spending.provisioning(job),
        "slices": newest.slices if newest else job.spec.resources.num_slices,
        "first_worker": {"attempt": bad[0].number, **values_of(bad[1], WORKER)} if bad else None,
        "workers": [values_of(report, WORKER) for report in newest.workers] if newest else [],
        "switch": proof.text if proof else "",
        "slice_hours": round(spent.slice_hours, 4),
        "price_as_of": spent.as_of,
        "budget": found.budget,
        "secrets": sorted(job.spec.secrets),
        "logs": found.logs,
        "stacks": found.stacks,
        "events": [{"time": PointInTime(each.time_s), "text": each.text} for each in job.events],
        "findings": [values_of(each, FINDING) for each in wrong],
        "goodput": goodput_document(found.goodput),
        "service": job.replica.service if job.replica else None,
        "replica": job.replica.number if job.replica else None,
        "notify": [notify_document(target) for target in job.spec.notify or ()],
        "notifications": [notification_document(job, each) for each in job.notifications],
    }


def notify_document(target: NotifyTarget) -> dict[str, Any]:
    """A target of `notify` as a JSON object, without a secret. Keys are public."""
    return {"target": target.label, "events": list(target.events)}


def notify_text(target: NotifyTarget) -> str:
    """A target of `notify` in words: `slack (env:SLACK_URL): failed, finished`."""
    return f"{target.label}: {', '.join(target.events) or 'nothing'}"


def notification_document(job: JobRecord, found: Notification) -> dict[str, Any]:
    """A message about the job as a JSON object. Keys are public."""
    return {
        "id": found.notification_id,
        "event": found.event,
        "time": PointInTime(found.time_s),
        "attempt": found.attempt,
        "targets": [
            {
                "target": job.target_label(sending.target),
                "state": sending.state,
                "time": moment_of(sending.time_s),
                "error": sending.error,
            }
            for sending in found.sendings
        ],
    }


def goodput_document(goodput: Goodput) -> dict[str, Any]:
    """Where the seconds and the dollars of a job went, as JSON. Keys are public."""
    share = goodput.share
    return {
        "percent": None if share is None else round(100 * share, 2),
        "wall_s": round(goodput.wall_s, 3),
        "parts": [
            {"part": part, "seconds": round(seconds, 3), "usd": usd and round(usd, 6)}
            for part, seconds, usd in goodput.parts
        ],
    }
