"""`tpuctl job logs`: every worker's lines, merged by time, each with its number."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Annotated

import typer

from tpuctl.cli.shell.options import JobName, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.job_log import ALL_LINES, LogFilter, LogLine


def logs(
    runtime: Runtime,
    name: JobName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it ends.")] = False,
    worker: Annotated[
        str | None,
        typer.Option(
            metavar="IDS",
            help="Only these: 0, 1,4,6 or 1-3.",
            autocompletion=completed_by("worker"),
        ),
    ] = None,
    attempt: Annotated[int | None, typer.Option(metavar="N", help="Only this attempt.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only newer lines: 10m, or 2026-01-31T12:00:00Z."),
    ] = None,
    grep: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only lines that it is found in.")
    ] = None,
) -> None:
    """Print the log of a job.

    All workers are merged by time.

    Lines that several workers print at about the same time are shown once: [0-3] text.
    """
    from tpuctl.cli.job.follow import follow_until_ended
    from tpuctl.cli.job.log_output import print_lines
    from tpuctl.cli.shell import job_notices
    from tpuctl.operations.jobs import logs as job_logs
    from tpuctl.operations.jobs import queries, supervision
    from tpuctl.operations.jobs.bounded_pattern import compile_pattern
    from tpuctl.operations.remote.fanout import worker_ids

    pattern = compile_pattern(grep) if grep else None
    wanted = LogFilter(
        frozenset(worker_ids(worker)) if worker is not None else None,
        frozenset({attempt}) if attempt is not None else None,
        since_s=job_logs.parse_since(since, runtime.now()) if since else 0.0,
        grep=pattern,
    )
    job = queries.find_job(runtime, name)
    job_logs.check_filter(job, wanted, follow=follow)
    job_notices.show_supervision(runtime, supervision.check_supervised(runtime, [job]))
    if follow:
        follow_until_ended(runtime, job.job_id, wanted)
    else:
        lines = job_logs.read_lines(runtime, job.job_id, wanted)
        nothing = f"job {job.job_id}: no lines" + (" like these" if wanted != ALL_LINES else " yet")
        with pattern or nullcontext():
            print_lines(runtime, note_if_empty(lines, partial(runtime.output.note, nothing)))


def service_logs(
    runtime: Runtime,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The service.", autocompletion=completed_by("service")),
    ],
    replica: Annotated[
        int | None, typer.Option(metavar="N", help="Only this replica, as describe numbers them.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it ends.")] = False,
) -> None:
    """Print what the engines of a service print.

    Of every replica that runs, one after the other; those of one with --replica.
    """
    from tpuctl.cli.job.follow import follow_until_ended
    from tpuctl.cli.job.log_output import print_lines
    from tpuctl.cli.shell import job_notices
    from tpuctl.operations.jobs import logs as job_logs
    from tpuctl.operations.services import queries

    record = job_notices.result_of(runtime, queries.load_service(runtime, name)).record
    if follow:
        follow_until_ended(runtime, queries.choose_replica(record, replica).job_id)
        return
    for each in queries.choose_replicas(record, replica):
        runtime.output.note(f"replica {each.number} ({each.state}): job {each.job_id}")
        lines = job_logs.read_lines(runtime, each.job_id, ALL_LINES)
        nothing = f"replica {each.number}: no lines yet"
        print_lines(runtime, note_if_empty(lines, partial(runtime.output.note, nothing)))


def note_if_empty(lines: Iterable[LogLine], say: Callable[[], None]) -> Iterator[LogLine]:
    """Yield the lines; call `say` when there is none."""
    is_none = True
    for line in lines:
        is_none = False
        yield line
    if is_none:
        say()
