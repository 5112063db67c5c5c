"""The page of a job: where its time and money went, what is wrong, and what its workers do."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpuctl.cli.dashboard.board import Board, result_of
from tpuctl.cli.dashboard.page import (
    Page,
    facts,
    findings_list,
    heading,
    missing_list,
    state,
)
from tpuctl.cli.dashboard.pages.charts import (
    chart_document,
    charts_section,
    workers_form,
    workers_table,
)
from tpuctl.cli.dashboard.pages.mesh_view import mesh_section
from tpuctl.cli.dashboard.pages.timeline import duration_text, timeline
from tpuctl.cli.job.describe_view import job_view
from tpuctl.cli.job.details import first_failure
from tpuctl.cli.shell.tables.values import PointInTime, printable
from tpuctl.cli.top.worker_row import worker_rows
from tpuctl.cli.web.html import Child, Html, join, link, path, table, tag
from tpuctl.metrics.chart_series import charts
from tpuctl.metrics.findings.observation import Finding, Observation
from tpuctl.models.job import Attempt, AttemptState, JobRecord
from tpuctl.operations.jobs import queries
from tpuctl.operations.jobs.queries import JobDetails
from tpuctl.operations.metrics.explain import Explanation
from tpuctl.operations.metrics.job_metrics import job_metrics
from tpuctl.operations.metrics.watched_slice import WatchedSlice
from tpuctl.operations.remote.fanout import worker_ids

EVERY_S = 3.0
ORDER = (
    "state", "missing", "timeline", "findings", "failure", "chips", "workers", "charts", "attempts",
    "events",
)  # fmt: skip
HIDDEN_FIELDS = frozenset({"goodput", "logs", "stacks"})
"""Of `job describe`; the page shows them otherwise."""


async def job_page(board: Board, name: str, workers: str, metric: str) -> Page:
    """The page of a job as it is now.

    `workers` are those whose charts are wanted, "" for all; chips are coloured by `metric`.
    """
    missing: list[str] = []
    found = await asyncio.to_thread(
        lambda: result_of(queries.load_details(board.runtime, name), missing)
    )
    job = found.job
    watched = None if job.is_settled else board.watches.job(job)
    findings = await _findings(board, job, watched, missing)
    if watched and watched.trouble and _has_workers(job):
        missing.append(watched.trouble)
    rows = worker_rows(watched, found.now_s, time.monotonic(), findings) if watched else []
    live = {
        "state": _state(found),
        "missing": missing_list(missing),
        "timeline": timeline(job, found.now_s),
        "findings": findings_list(findings, board.typed),
        "failure": _failure(job),
        "chips": mesh_section(watched, rows, metric) if watched else Html(""),
        "workers": workers_table(rows),
        "attempts": heading("Attempts", _attempts(found)),
        "events": _events(found),
    }
    return Page(
        job.job_id, live, {"charts": _charts(job, workers)}, ORDER,
        back=(tag("span", "Job"),), has_charts=True, is_over=job.is_settled, every_s=EVERY_S,
    )  # fmt: skip


async def _findings(
    board: Board, job: JobRecord, watched: WatchedSlice | None, missing: list[str]
) -> Sequence[Finding]:
    """What is wrong: of a job that runs by its workers now, of any other by its bucket."""
    if watched and any(each.sample for each in watched.known_workers):
        return watched.findings(board.runtime.now())
    return await asyncio.to_thread(board.overviews.findings, job, missing)


def _has_workers(job: JobRecord) -> bool:
    running = (AttemptState.PREPARING, AttemptState.RUNNING)
    return job.attempt is not None and job.attempt.state in running


def _state(found: JobDetails) -> Html:
    job = found.job
    view = job_view(found, Explanation([], Observation(found.now_s)))
    shown: dict[str, Child] = {"state": state(job.state)}
    shown |= {label: text for label, text in view.fields if label and label not in HIDDEN_FIELDS}
    links = [
        link(text, "jobs", job.job_id, *parts)
        for text, parts in (("Log", ("logs",)), ("Checkpoints", ("checkpoints",)))
    ]
    if not job.is_settled:
        links.append(link("Cancel", "jobs", job.job_id, "cancel"))
    return join([facts(shown), tag("p", [[each, " "] for each in links], class_="actions")])


def _failure(job: JobRecord) -> Html:
    """The last lines of the worker that went wrong first; empty where none did."""
    found = first_failure(job)
    if found is None:
        return Html("")
    attempt, worker = found
    title = f"Worker {worker.worker_id}, the first to go wrong in attempt {attempt.number}"
    lines = "\n".join(map(printable, worker.last_lines)) or "Nothing that it printed is known."
    return heading(title, tag("p", queries.worker_text(worker)), tag("pre", lines, tabindex=0))


def _charts(job: JobRecord, workers: str) -> Html:
    """The place of the charts, with a form for the workers that they show."""
    asked = {"worker": workers} if workers else {}
    source = path("jobs", job.job_id, "samples", **asked)
    is_one = job.attempt is None or job.attempt.worker_count < 2
    again = f"tpuctl job metrics {job.job_id} -o csv"
    return charts_section(source, again, None if is_one else workers_form(workers))


def job_charts(board: Board, name: str, workers: str) -> dict[str, Any]:
    """The charts of a job for its page: times, lines, and when each attempt began and ended."""
    found = job_metrics(board.runtime, board.runtime.access, name)
    wanted = set(worker_ids(workers)) if workers else None
    series = [each for each in found.series if wanted is None or each.worker_id in wanted]
    return {
        **chart_document(charts(series)),
        "marks": [mark for attempt in found.job.attempts for mark in _marks(attempt)],
        "missing": found.missing,
        "over": found.job.is_settled,
    }


def _marks(attempt: Attempt) -> list[dict[str, Any]]:
    """When an attempt began to run, and when and how it ended."""
    number = attempt.number
    marks = [(attempt.started_s, f"attempt {number}", "start")]
    if attempt.outcome is not None:
        marks.append((attempt.ended_s, str(attempt.outcome), str(attempt.outcome)))
    return [
        {"time": time_s, "text": text, "kind": kind}
        for time_s, text, kind in marks
        if time_s is not None
    ]


def _attempts(found: JobDetails) -> Html:
    columns: Mapping[str, Callable[[Attempt], Child]] = {
        "attempt": lambda each: each.number,
        "outcome": lambda each: state(str(each.outcome or each.state)),
        "took": lambda each: _took(each, found.now_s),
        "steps": lambda each: f"{each.resume_step} to {max(each.resume_step, each.last_step)}",
        "slice": lambda each: [_slice(each), f" in {each.zone}"],
        "reason": lambda each: each.reason,
    }
    return table("Attempts, the newest first", columns, found.job.attempts[::-1], "None yet.")


def _slice(attempt: Attempt) -> Child:
    """The names of its nodes, with links while they are there."""
    if attempt.ready_s is None or attempt.deleted_s is not None:
        return attempt.node
    return [[link(node, "nodes", attempt.zone, node), " "] for node in attempt.nodes]


def _took(attempt: Attempt, now_s: float) -> str | None:
    began_s = attempt.started_s or attempt.ready_s or attempt.requested_s
    end_s = now_s if attempt.ended_s is None else attempt.ended_s
    return None if began_s is None else duration_text(end_s - began_s)


def _events(found: JobDetails) -> Html:
    columns: Mapping[str, Callable[[Any], Child]] = {
        "time": lambda each: str(PointInTime(each.time_s)),
        "event": lambda each: each.text,
    }
    events = found.job.events[::-1]
    return heading("Events", table("The newest first", columns, events, "None yet."))
