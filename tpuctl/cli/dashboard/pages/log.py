"""The log of a job: the newest lines, those with a text, or those around a step or the failure."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpuctl.cli.dashboard.board import Board
from tpuctl.cli.dashboard.page import Page, heading
from tpuctl.cli.job.details import first_failure
from tpuctl.cli.shell.tables.values import PointInTime, printable
from tpuctl.cli.web.html import Html, link, tag
from tpuctl.models.job import JobRecord
from tpuctl.models.job_log import LogFilter, LogLine
from tpuctl.operations.jobs import logs, queries
from tpuctl.operations.jobs.logs import ContainedText, LogExcerpt
from tpuctl.operations.remote.fanout import worker_ids

MOST_LINES = 400
MOST_CHARACTERS = 400
"""The most characters of a line that are shown; a program may print all its weights in one."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What a person looks for in a log."""

    search: str = ""
    workers: str = ""
    attempt: int | None = None
    step: int | None = None
    at_failure: bool = False

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "LogQuery":
        """What a form asks for; a number that is none counts as not given."""

        def number(key: str) -> int | None:
            text = given.get(key, "").strip()
            return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None

        return cls(
            given.get("search", ""), given.get("worker", "").strip(), number("attempt"),
            number("step"), given.get("at") == "failure",
        )  # fmt: skip

    @property
    def is_plain(self) -> bool:
        """Whether nothing is looked for."""
        return self == LogQuery()


async def log_page(board: Board, name: str, query: LogQuery) -> Page:
    """The page of a job's log with what is looked for; the newest lines come by themselves."""
    job = await asyncio.to_thread(queries.find_job, board.runtime, name)
    back = (link(job.job_id, "jobs", job.job_id), tag("span", "Log"))
    is_live = query.is_plain and not job.is_settled
    excerpt = None
    if is_live:
        board.watches.job(job)
        if newest := board.watches.lines(job):
            excerpt = LogExcerpt(newest[-MOST_LINES:])
    if excerpt is None:
        excerpt = await asyncio.to_thread(_excerpt, board, job, query)
    fixed = {"form": _form(job, query)}
    shown = {"lines": _lines(excerpt, query)}
    title = f"Log of {job.job_id}"
    if is_live:
        return Page(title, shown, fixed, ("form",), back)
    return Page(title, {}, {**fixed, **shown}, back=back)


def _excerpt(board: Board, job: JobRecord, query: LogQuery) -> LogExcerpt:
    if query.is_plain:
        return logs.newest_lines(board.runtime, job, MOST_LINES)
    wanted = LogFilter(
        workers=frozenset(worker_ids(query.workers)) if query.workers else None,
        attempts=frozenset({query.attempt}) if query.attempt is not None else None,
        grep=ContainedText(query.search) if query.search else None,
    )
    failure = first_failure(job) if query.at_failure else None
    if failure:
        wanted = LogFilter(wanted.workers, frozenset({failure[0].number}), grep=wanted.grep)
    lines = logs.read_lines(board.runtime, job.job_id, wanted)
    if query.step is not None:
        return logs.find_lines(lines, logs.is_step(query.step), MOST_LINES)
    if query.at_failure:
        first = failure[1].worker_id if failure else None
        return logs.find_lines(lines, logs.is_failure(first), MOST_LINES)
    return logs.find_lines(lines, lambda _line: False, MOST_LINES)


def _form(job: JobRecord, query: LogQuery) -> Html:
    fields = {
        "search": ("Text", query.search, "any"),
        "worker": ("Workers", query.workers, "all"),
        "attempt": ("Attempt", query.attempt, "all"),
        "step": ("Step", query.step, "none"),
    }
    boxes = [
        tag("label", f"{label} ", tag("input", name=key, value=value, placeholder=hint), " ")
        for key, (label, value, hint) in fields.items()
    ]
    form = tag("form", boxes, tag("button", "Show"), method="get", class_="row")
    links = [link("the newest lines", "jobs", job.job_id, "logs")]
    if first_failure(job):
        links.append(link("the failure", "jobs", job.job_id, "logs", at="failure"))
    return tag("div", form, tag("p", "Jump to ", [[each, ", "] for each in links[:-1]], links[-1]))


def _lines(excerpt: LogExcerpt, query: LogQuery) -> Html:
    """The lines in their order, the one that was looked for marked."""
    if not excerpt.lines:
        return heading("Lines", tag("p", "There are no such lines.", class_="muted"))
    looks = query.step is not None or query.at_failure
    notes = []
    if looks and excerpt.found is None:
        notes.append("There is no such line; these are the last ones.")
    if excerpt.is_cut:
        notes.append(f"There are others before or after these: at most {MOST_LINES} are shown.")
    rows = [_row(line, is_found=index == excerpt.found) for index, line in enumerate(excerpt.lines)]
    where = tag("p", tag("a", "To the line that was looked for", href="#found"))
    return heading(
        "Lines",
        [tag("p", note, class_="muted") for note in notes],
        where if excerpt.found is not None else None,
        tag("pre", rows, tabindex=0, class_="log"),
    )


def _row(line: LogLine, *, is_found: bool) -> Html:
    source = f"{str(PointInTime(line.time_s))[11:19]} [{line.attempt}-{line.worker_id}] "
    text = printable(line.text)
    if line.missing_bytes:
        text = f"({line.missing_bytes} bytes are missing here) {text}"
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]}… ({len(text)} characters)"
    words: Sequence[Html | str] = (tag("span", source, class_="muted"), text, "\n")
    return tag("mark", words, id="found") if is_found else tag("span", words)
