"""The checkpoints of a job."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from tpuctl.cli.checkpoint.list import SCREEN
from tpuctl.cli.dashboard.board import Board
from tpuctl.cli.dashboard.page import Page, facts, state
from tpuctl.cli.web.html import Child, link, table, tag
from tpuctl.errors import NotFoundError, UsageError
from tpuctl.models.job import JobRecord
from tpuctl.operations.checkpoints import survey
from tpuctl.operations.checkpoints.step_view import StepView
from tpuctl.operations.jobs import queries

EVERY_S = 15.0
"""Each time the whole directory is listed."""


def _columns() -> Mapping[str, Callable[[StepView], Child]]:
    """The columns that `checkpoint list` has on a screen."""
    names = {"age": "written", "saved_in": "saved in"}
    shown = {names.get(key, key): partial(_cell, get) for key, get in SCREEN.items()}
    return {**shown, "state": lambda view: state(view.state.value)}


def _cell(get: Callable[[StepView], object], view: StepView) -> str:
    return str(get(view) or "")


async def checkpoint_page(board: Board, name: str) -> Page:
    """The page of a job's checkpoint directory: every step and what it is good for."""
    job = await asyncio.to_thread(queries.find_job, board.runtime, name)
    views, why = await asyncio.to_thread(_steps, board, job)
    given = job.spec.checkpoints
    where = facts({"directory": given.dir, "kept": given.keep} if given else {})
    steps = table("Steps, the newest first", _columns(), views[::-1], why)
    live = {"steps": tag("div", where, steps)}
    back = (link(job.job_id, "jobs", job.job_id), tag("span", "Checkpoints"))
    title = f"Checkpoints of {job.job_id}"
    return Page(title, live, back=back, is_over=job.is_settled, every_s=EVERY_S)


def _steps(board: Board, job: JobRecord) -> tuple[list[StepView], str]:
    """The steps, and why there is none."""
    try:
        place = survey.job_directory(job, board.runtime.store)
        return survey.survey_directory(place).views, ""
    except (NotFoundError, UsageError) as error:
        return [], str(error)
