"""`tpuctl run FILE`: submit, follow, tear down."""

import typer

from tpuctl.cli.job.submit import File, Include, look_after, written
from tpuctl.cli.job.watch import follow_to_the_end
from tpuctl.cli.shell.options import Verb
from tpuctl.cli.shell.runtime import Runtime

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command("run", cls=Verb)
def run(ctx: typer.Context, file: File, include: Include = None) -> None:
    """Submit a job and follow it to its end; its slice is torn down unless the file says else."""
    runtime = ctx.ensure_object(Runtime)
    job = written(runtime, file, None, include or ())
    look_after(runtime, job)
    follow_to_the_end(runtime, job.job_id)
