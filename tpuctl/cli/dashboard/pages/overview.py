"""The first page: jobs and nodes, what is wrong with them and what they cost."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from tpuctl.byte_size import count_text
from tpuctl.cli.dashboard.board import Board
from tpuctl.cli.dashboard.page import (
    Page,
    facts,
    findings_list,
    heading,
    missing_list,
    state,
    usd_text,
)
from tpuctl.cli.job.details import last_step
from tpuctl.cli.web.html import Child, Html, link, table, tag
from tpuctl.models.duration import age
from tpuctl.operations.jobs.queries import current_status
from tpuctl.operations.metrics.overview import JobSummary, NodeSummary, Overview

EVERY_S = 10.0
"""Each time the record of every job is read."""


async def overview_page(board: Board) -> Page:
    """The page of all jobs and nodes, as they are now."""
    found = await asyncio.to_thread(board.overviews.read)
    findings = [each for summary in found.jobs for each in summary.findings]
    live = {
        "now": _now(found),
        "missing": missing_list(found.missing),
        "findings": findings_list(findings, board.typed),
        "jobs": heading("Jobs", _jobs(found)),
        "nodes": heading("Nodes", _nodes(found)),
    }
    return Page("Overview", live, every_s=EVERY_S)


def _now(found: Overview) -> Html:
    running = sum(not each.job.is_ended for each in found.jobs)
    return facts(
        {
            "open jobs": running,
            "nodes": len(found.nodes),
            "cost now": f"{usd_text(found.usd_per_hour)}/h",
            "cost of these jobs so far": link(usd_text(found.usd), "cost"),
        }
    )


def _jobs(found: Overview) -> Html:
    columns: Mapping[str, Callable[[JobSummary], Child]] = {
        "job": lambda each: link(each.job.job_id, "jobs", each.job.job_id),
        "state": lambda each: state(each.job.state),
        "step": lambda each: last_step(each.job),
        "slice": lambda each: f"{each.job.accelerator_type} in {each.job.zone}",
        "attempts": lambda each: len(each.job.attempts),
        "submitted": lambda each: f"{age(found.now_s - each.job.submitted_s)} ago",
        "cost": lambda each: usd_text(each.usd),
        "why": lambda each: current_status(each.job, found.now_s),
    }
    shown = table("Jobs, the newest first", columns, found.jobs, "There is no job yet.")
    more = _hidden_text(found.hidden) if found.hidden else None
    return Html(shown + (tag("p", more, class_="muted") if more else ""))


def _hidden_text(count: int) -> str:
    """`1 job that ended earlier is not shown.`"""
    return (
        f"{count_text(count, 'job')} that ended earlier {'is' if count == 1 else 'are'} not shown."
    )


def _nodes(found: Overview) -> Html:
    columns: Mapping[str, Callable[[NodeSummary], Child]] = {
        "node": lambda each: link(each.node.name, "nodes", each.node.zone, each.node.name),
        "state": lambda each: state(each.node.state),
        "type": lambda each: each.node.accelerator_type,
        "zone": lambda each: each.node.zone,
        "workers": lambda each: each.node.worker_count,
        "used by": lambda each: link(each.job_id, "jobs", each.job_id) if each.job_id else None,
        "cost": lambda each: f"{usd_text(each.usd_per_hour)}/h",
    }
    nodes: Iterable[NodeSummary] = sorted(found.nodes, key=lambda each: each.node.name)
    return table("Nodes of all zones", columns, nodes, "There is no node.")
