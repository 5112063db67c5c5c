"""What pages can end: a job, or a node. Each asks a person to type the name of what it ends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tpuctl.cli.dashboard.board import Board
from tpuctl.cli.dashboard.page import Page, usd_text
from tpuctl.cli.web.html import Child, link, path, tag
from tpuctl.errors import PreconditionError
from tpuctl.models.node import Node
from tpuctl.operations.jobs import change, queries
from tpuctl.operations.metrics.watched_slice import WatchedSlice
from tpuctl.operations.slices import lifecycle, spending
from tpuctl.operations.slices.flex_start import with_flex_start


@dataclass(frozen=True, slots=True)
class Question:
    """Something that is done once a person has typed the name of what it is about."""

    title: str
    subject: str
    """All that is ended: what a person was asked is what is done."""
    text: str
    """The question, with context and price."""
    name: str
    button: str
    back: tuple[Child, ...]
    act: Callable[[], str]
    """Does it, and returns what the next page says. Raises TpuctlError."""
    then: str
    """The path of the next page."""


Ask = Callable[[Board, Mapping[str, str]], Question]
"""Reads what the path names, and makes the question. Raises TpuctlError."""


def ask_to_cancel(board: Board, names: Mapping[str, str]) -> Question:
    """Whether a job is to be cancelled; raises PreconditionError for one that has ended."""
    runtime = board.runtime
    job = queries.find_job(runtime, names["job"])
    if job.is_settled:
        raise PreconditionError(
            f"job {job.job_id!r} has ended already", hint=f"run: tpuctl job describe {job.job_id}"
        )
    usd = usd_text(spending.spending_of(job, runtime.now()).usd)
    hourly = spending.usd_per_hour(job) if spending.has_slice(job) else 0.0

    def cancel() -> str:
        working = change.cancel(runtime, [job.job_id])
        while True:
            try:
                next(working)
            except StopIteration as end:
                end.value.raise_errors()
                return f"Job {job.job_id} is being cancelled."

    return Question(
        f"Cancel {job.job_id}",
        f"job {job.job_id}",
        f"Cancel job {job.job_id} in context {runtime.context.name}? It is {job.state}, has cost "
        f"{usd} and costs {usd_text(hourly)}/h now.",
        job.job_id, "Cancel the job", (link(job.job_id, "jobs", job.job_id),), cancel,
        path("jobs", job.job_id),
    )  # fmt: skip


def ask_to_delete(board: Board, names: Mapping[str, str]) -> Question:
    """Whether a node is to be deleted, with its queued resource and the other nodes of that."""
    tpu, zone, name = board.runtime.tpu, names["zone"], names["node"]
    planned = lifecycle.plan_deletion(tpu, zone, name, node_only=False)
    (node,) = with_flex_start(tpu, [planned.node])
    owner = f" and queued resource {planned.request}" if planned.request else ""
    others = "".join(f" and node {other}" for other in planned.others)

    def delete() -> str:
        lifecycle.delete(tpu, planned)
        return f"Node {name} is being deleted."

    subject = f"node {name}{others}{owner}"
    return Question(
        f"Delete {name}",
        subject,
        f"Delete {subject} in context {board.runtime.context.name}? "
        f"{_used_by(board, node)}It costs {usd_text(_price(node, len(planned.others)))}/h.",
        name, "Delete the node", (link(name, "nodes", zone, name),), delete, "/",
    )  # fmt: skip


def _used_by(board: Board, node: Node) -> str:
    """The job that ends with the node; "" for none."""
    used = [each for each in board.overviews.read().nodes if each.node.node_id == node.node_id]
    return f"Job {used[0].job_id} uses it. " if used and used[0].job_id else ""


def _price(node: Node, others: int) -> float | None:
    usd = WatchedSlice(node.name, node=node).usd_per_hour
    return None if usd is None else usd * (1 + others)


def question_page(question: Question, csrf: str, problem: str = "") -> Page:
    """The form that asks; `problem` says why an answer did not do."""
    form = tag(
        "form",
        tag("p", question.text),
        tag("p", problem, class_="bad", role="alert") if problem else None,
        tag("input", type="hidden", name="csrf", value=csrf),
        tag("input", type="hidden", name="asked", value=question.subject),
        tag("p", tag("label", f"Type {question.name} to confirm: ", tag(
            "input", name="name", required=True, autocomplete="off", spellcheck="false",
        ))),
        tag("button", question.button, class_="danger"),
        method="post",
    )  # fmt: skip
    return Page(question.title, fixed={"question": form}, back=question.back)


def problem_of(question: Question, answer: Mapping[str, str]) -> str:
    """Why an answer does not confirm a question; "" for one that does."""
    if answer.get("asked") != question.subject:
        return "It has changed meanwhile: read the question again."
    if answer.get("name", "").strip() != question.name:
        return f"The name is not {question.name}: nothing was done."
    return ""
