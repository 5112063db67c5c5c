"""`tpuctl history`: who ran what here, and how it ended."""

from collections.abc import Callable, Iterable
from itertools import chain
from shlex import quote
from typing import Annotated

import typer

from tpuctl.cli.shell import job_notices
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import Listing, declare_keys
from tpuctl.cli.shell.tables.values import Columns, attributes, moments, usd_of
from tpuctl.models.duration import age
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs import queries
from tpuctl.operations.slices import spending

LIMIT = 50


@declare_keys(lambda: columns(0.0))
def history(
    runtime: Runtime,
    owner: Annotated[
        str | None, typer.Option(metavar="OWNER", help="Only jobs of USER@HOST, or of USER.")
    ] = None,
) -> None:
    """Show who ran what: every job of the context's bucket, the newest first.

    How long it took, how it ended, how many hours of slices it used, and what they cost by the
    list price of today.
    """
    output = runtime.output
    now_s = runtime.now()
    if runtime.has_no_local_state():
        output.items([], _listing(now_s))
        return
    jobs = job_notices.result_of(runtime, queries.list_jobs(runtime))
    chosen = [job for job in jobs if owner is None or is_owned_by(job, owner)]
    limit = LIMIT if output.list_flags.limit is None else output.list_flags.limit
    output.list_flags.limit = limit
    output.items(chosen, _listing(now_s), title=f"history of {runtime.context.name}")
    if not jobs and output.is_table:
        output.note("history lists jobs; nodes, and what they cost an hour: tpuctl node list")
    if len(chosen) > limit:
        of = f" --owner {quote(owner)}" if owner else ""
        more = f"tpuctl history --limit {len(chosen)}{of}"
        output.note(f"{len(chosen) - limit} older ones: {more}")


def columns(now_s: float) -> Columns[JobRecord]:
    """The columns at the time `now_s`, in seconds since 1970. Keys and order are public."""

    def spent(job: JobRecord) -> spending.Spending:
        return spending.spending_of(job, now_s)

    return {
        "id": lambda job: job.job_id,
        **moments("submitted"),
        **attributes("owner", name="spec.name"),
        "command": lambda job: job.spec.run.strip(),
        **attributes("accelerator_type", "zone"),
        "duration_s": lambda job: round(_duration_s(job, now_s), 3),
        "attempts": lambda job: len(job.attempts),
        "outcome": lambda job: job.state,
        "slice_hours": lambda job: round(spent(job).slice_hours, 4),
        "usd": lambda job: usd_of(spent(job).usd),
        "queued_resources": lambda job: _distinct(
            name
            for each in job.attempts
            for name in (each.queued_resource, *(other.name for other in each.others))
        ),
        "node_ids": lambda job: _distinct(chain(*(each.node_ids for each in job.attempts))),
    }


def _listing(now_s: float) -> Listing[JobRecord]:
    table: dict[str, str | Callable[[JobRecord], object]] = {
        "age": "submitted",
        "id": "id",
        "owner": "owner",
        "took": lambda job: age(_duration_s(job, now_s)),
        "tries": "attempts",
        "outcome": "outcome",
        "hours": lambda job: float(f"{spending.spending_of(job, now_s).slice_hours:.2g}"),
        "usd": "usd",
        "command": "command",
    }
    return Listing(columns(now_s), table, least=("tries", "hours", "command"))


def is_owned_by(job: JobRecord, owner: str) -> bool:
    """Whether `owner` is the job's owner, as USER@HOST or as USER."""
    return owner in (job.owner, job.owner.partition("@")[0])


def _duration_s(job: JobRecord, now_s: float) -> float:
    return (job.ended_s if job.ended_s is not None else now_s) - job.submitted_s


def _distinct(ids: Iterable[object]) -> list[str]:
    """The ids that are known, each once."""
    return list(dict.fromkeys(str(each) for each in ids if each not in (None, "")))
