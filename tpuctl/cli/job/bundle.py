"""`tpuctl job bundle`: everything about a job in one archive, to be sent to whoever is asked."""

from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli.shell.options import JobName
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import PartialFailureError

COLUMNS = {
    "file": lambda made: str(made[0]),
    "job": lambda made: made[1].record.job_id,
    "files": lambda made: sorted(made[1].files),
    "unread": lambda made: made[1].unread,
}


def bundle(
    ctx: typer.Context,
    name: JobName,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-O", metavar="FILE", help="Where to; else ID.tar.gz here."),
    ] = None,
) -> None:
    """Put a job's record, events, last lines, final statuses and stacks into one .tar.gz."""
    from tpuctl.jobs import client
    from tpuctl.jobs.logs import job_bundle as bundles

    runtime = ctx.ensure_object(Runtime)
    store = runtime.store()
    found = bundles.collect(store, client.describe(store, name).job_id)
    path = file or Path(f"{found.record.job_id}.tar.gz")
    bundles.write(found, path)
    runtime.output.item((path, found), COLUMNS)
    if found.unread:
        raise PartialFailureError(
            f"{path} is not complete: {len(found.unread)} of the job's objects could not be read",
            hint="unread.txt in it says which, and why",
        )
