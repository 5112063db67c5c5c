"""`tpuctl run FILE`: submit, follow, tear down."""

import typer

from tpuctl.cli.job.submit import File, Include, hand_to_supervisor, submit_job
from tpuctl.cli.job.watch_job import follow_until_ended
from tpuctl.cli.shell.options import Verb
from tpuctl.cli.shell.runtime import Runtime

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command("run", cls=Verb)
def run(ctx: typer.Context, file: File, include: Include = None) -> None:
    """Submit a job and follow it to its end; its slice is torn down unless the file says else."""
    runtime = ctx.ensure_object(Runtime)
    job = submit_job(runtime, file, None, include or ())
    hand_to_supervisor(runtime, job)
    follow_until_ended(runtime, job.job_id)
