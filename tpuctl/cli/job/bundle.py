"""`tpuctl job bundle`: everything about a job in one archive, to be sent to whoever is asked."""

from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli.shell.options import JobName
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import PartialFailureError

COLUMNS = {
    "file": lambda row: str(row[0]),
    "job": lambda row: row[1].record.job_id,
    "files": lambda row: sorted(row[1].files),
    "unread": lambda row: row[1].unread,
}


def bundle(
    runtime: Runtime,
    name: JobName,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-O", metavar="FILE", help="Where to; else ID.tar.gz here."),
    ] = None,
) -> None:
    """Pack everything about a job into a .tar.gz.

    Record, events, last lines, statuses, stacks and Ray logs.
    """
    from tpuctl.operations.jobs import logs

    path, written = logs.write_bundle(runtime, name, file)
    runtime.output.item((path, written), COLUMNS)
    if written.unread:
        raise PartialFailureError(
            f"{path} is not complete: {len(written.unread)} of the job's objects could not be read",
            hint="unread.txt in it says which, and why",
        )
