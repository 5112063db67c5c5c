"""What jobs and nodes cost, and how much of it made progress."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tpuctl.cli.dashboard.board import Board
from tpuctl.cli.dashboard.page import Page, facts, missing_list, state, usd_text
from tpuctl.cli.dashboard.pages.timeline import duration_text
from tpuctl.cli.web.html import Child, link, table, tag
from tpuctl.metrics.goodput.accounting import GOOD, Goodput
from tpuctl.models.job import JobRecord
from tpuctl.operations.metrics.overview import total
from tpuctl.operations.slices import spending

EVERY_S = 10.0


class JobCost(NamedTuple):
    """What a job has used up, and where it went."""

    job: JobRecord
    spent: spending.Spending
    goodput: Goodput

    @property
    def usd_lost(self) -> float | None:
        """What was paid for all but progress."""
        return total(each.usd for each in self.goodput.parts if each.part != GOOD)


COLUMNS: Mapping[str, Callable[[JobCost], Child]] = {
    "job": lambda each: link(each.job.job_id, "jobs", each.job.job_id),
    "state": lambda each: state(each.job.state),
    "slice": lambda each: each.job.accelerator_type,
    "time": lambda each: duration_text(each.goodput.wall_s),
    "slice hours": lambda each: f"{each.spent.slice_hours:.3g}",
    "cost": lambda each: usd_text(each.spent.usd),
    "of it without progress": lambda each: usd_text(each.usd_lost),
    "goodput": lambda each: f"{100 * (each.goodput.share or 0.0):.0f} %",
}


async def cost_page(board: Board) -> Page:
    """The page of what is paid for: a row for each job, the sums, and the price of the nodes."""
    found = await asyncio.to_thread(board.overviews.read)
    rows = [
        JobCost(
            each.job,
            spending.spending_of(each.job, found.now_s),
            spending.goodput_of(each.job, found.now_s),
        )
        for each in found.jobs
    ]
    dates = sorted({each.spent.as_of for each in rows if each.spent.as_of})
    sums = {
        "cost now": f"{usd_text(found.usd_per_hour)}/h",
        "these jobs": usd_text(total(each.spent.usd for each in rows)),
        "of it without progress": usd_text(total(each.usd_lost for each in rows)),
        "list prices of": ", ".join(dates),
    }
    live = {
        "sums": facts(sums),
        "missing": missing_list(found.missing),
        "jobs": table("Jobs, the newest first", COLUMNS, rows, "There is no job yet."),
    }
    return Page("Cost", live, back=(tag("span", "Cost"),), every_s=EVERY_S)
